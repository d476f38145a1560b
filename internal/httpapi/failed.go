package httpapi

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"orgops/internal/results"
	"orgops/internal/rowfile"
	"orgops/internal/view"
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
func (s *Server) failed(w http.ResponseWriter, r *http.Request, run view.Run) error {
	forms := []string{jsonlType, oldJSONLType}
	if run.Format == rowfile.FormatCSV {
		forms = []string{csvType, jsonlType, oldJSONLType}
	}
	return s.sendRows(w, r, string(run.ID)+"-failed", forms, func(form string, out io.Writer) error {
		return run.ExportFailed(r.Context(), results.FailedOptions{JSON: form == rowfile.FormatJSONL}, out)
	})
}

// rows returns all rows of a run, or those with some outcomes: GET /v1/runs/{run}/rows.
func (s *Server) rows(w http.ResponseWriter, r *http.Request, run view.Run) error {
	var outcomes []string
	if list := r.URL.Query().Get("outcomes"); list != "" {
		outcomes = strings.Split(list, ",")
	}
	if err := results.CheckOutcomes(outcomes); err != nil {
		return badRequest("The parameter outcomes: %s.", err)
	}
	forms := []string{jsonlType, oldJSONLType, csvType}
	if run.Format == rowfile.FormatCSV {
		forms = []string{csvType, jsonlType, oldJSONLType}
	}
	return s.sendRows(w, r, string(run.ID), forms, func(form string, out io.Writer) error {
		return run.ExportResults(r.Context(), results.Options{Format: form, Outcomes: outcomes}, out)
	})
}

// sendRows sends the output of write as a file, in the first of the forms that the client accepts.
func (s *Server) sendRows(w http.ResponseWriter, r *http.Request, name string, forms []string,
	write func(form string, out io.Writer) error) error {
	mediaType, err := formOf(r, forms)
	if err != nil {
		return err
	}
	free, refused := s.downloads.Take(callerOf(r.Context()).Name)
	if refused != nil {
		return refused
	}
	defer free()
	// A long export reads nothing from the client, which may be slow to receive it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	w.Header().Set("Vary", "Accept")
	form := rowfile.FormatJSONL
	if mediaType == csvType {
		form = rowfile.FormatCSV
	}
	return web.SendFile(w, r, name+"."+form, mediaType, s.log, func(out io.Writer) error { return write(form, out) })
}

// formOf returns the first of the media types that the client accepts.
func formOf(r *http.Request, forms []string) (string, error) {
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
	if err != nil || (strings.Trim(params["q"], "0.") == "" && params["q"] != "") {
		return false
	}
	major, _, _ := strings.Cut(mediaType, "/")
	return accepted == mediaType || accepted == "*/*" || accepted == major+"/*"
}
