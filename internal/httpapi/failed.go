package httpapi

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/web"
)

// Media types of rows. JSON Lines has no registered one: the first is the most common one,
// and the default.
const (
	csvType      = "text/csv; charset=utf-8; header=present"
	jsonlType    = "application/jsonl"
	oldJSONLType = "application/x-ndjson"
)

// failed returns the failed rows of a run: GET /v1/runs/{run}/failed.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, run ledger.Run) error {
	form, err := formOf(r, run)
	if err != nil {
		return err
	}
	// A long export reads nothing from the client, which may be slow to receive it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	w.Header().Set("Vary", "Accept")
	name := string(run.ID) + "-failed.jsonl"
	if form == csvType {
		name = string(run.ID) + "-failed.csv"
	}
	return web.SendFile(w, r, name, form, s.log, func(out io.Writer) error {
		_, err := intake.ExportFailed(r.Context(), s.cfg.Ledger, run, intake.Export{JSON: form != csvType}, out)
		return err
	})
}

// formOf returns the format that the client accepts: the run's own, if that is among several.
func formOf(r *http.Request, run ledger.Run) (string, error) {
	forms := []string{jsonlType, oldJSONLType}
	if run.Format == intake.FormatCSV {
		forms = []string{csvType, jsonlType, oldJSONLType}
	}
	accepted := r.Header.Values("Accept")
	if len(accepted) == 0 {
		return forms[0], nil
	}
	ranges := strings.Split(strings.Join(accepted, ","), ",")
	for _, form := range forms {
		mediaType, _, _ := strings.Cut(form, ";")
		if slices.ContainsFunc(ranges, func(one string) bool { return accepts(one, mediaType) }) {
			return form, nil
		}
	}
	return "", newProblem(http.StatusNotAcceptable, "not-acceptable", "The rows of this run are available as: %s.",
		strings.Join(forms, ", "))
}

// accepts reports whether a range of the Accept header includes a type. Weights other than
// zero are ignored.
func accepts(one, mediaType string) bool {
	accepted, params, err := mime.ParseMediaType(one)
	if err != nil || strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
		return false
	}
	major, _, _ := strings.Cut(mediaType, "/")
	return accepted == mediaType || accepted == "*/*" || accepted == major+"/*"
}
