package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var description []byte

// descriptionJSON is the same as JSON.
var descriptionJSON = sync.OnceValue(func() []byte {
	var v any
	err := yaml.Unmarshal(description, &v)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(v); err == nil {
			return text
		}
	}
	panic(fmt.Sprintf("httpapi: openapi.yaml: %v", err)) // it is embedded, and tested
})

func openapiYAML(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(description)
	return nil
}

func openapiJSON(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(descriptionJSON())
	return nil
}
