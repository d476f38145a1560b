package events

import (
	"encoding/json"
	"fmt"
	"time"

	"orgops/internal/untrusted"
)

const (
	// maxDocument bounds an event's document, in bytes. Standard Webhooks asks senders for it.
	maxDocument = 20 << 10
	// maxText bounds each text that is cut, in code points. All texts together stay within
	// maxDocument, even if JSON escapes each code point in six bytes.
	maxText = 200
)

// Document returns the event as JSON, with the members that Standard Webhooks recommends.
// If it were longer than 20 KiB, its texts are cut.
func (e Event) Document() ([]byte, error) {
	body, err := e.encode(e.Data)
	if err == nil && len(body) > maxDocument {
		body, err = e.encode(e.Data.cut())
	}
	if err == nil && len(body) > maxDocument {
		err = fmt.Errorf("its document has %d bytes, more than %d, with its texts cut", len(body), maxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", e.ID, err)
	}
	return body, nil
}

func (e Event) encode(data Data) ([]byte, error) {
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      Data      `json:"data"`
	}{e.Type, e.At.UTC(), data})
}

func (d Data) cut() Data {
	for _, text := range []*string{
		&d.Tenant, &d.OrganizationID, &d.DiscoveryDomainID, &d.Domain, &d.Run, &d.Kind, &d.Reason, &d.Action,
	} {
		*text = untrusted.Cut(*text, maxText)
	}
	return d
}
