package console

import (
	"cmp"
	"io"
	"net/http"

	"orgops/internal/results"
	"orgops/internal/rowfile"
	"orgops/internal/status"
	"orgops/internal/web"
)

// mediaTypes are those of the forms of rows.
var mediaTypes = map[string]string{
	rowfile.FormatCSV:   "text/csv; charset=utf-8",
	rowfile.FormatJSONL: "application/jsonl",
}

// failed sends the failed rows of a run as a file, as "enqueue runs failed" writes them: GET
// /runs/{id}/failed, as JSON Lines with ?format=jsonl.
func (s *site) failed(w http.ResponseWriter, r *http.Request) {
	run, err := s.found(s.view(r.Context()), r)
	form := cmp.Or(r.URL.Query().Get("format"), run.Format)
	if err == nil && form != run.Format && form != rowfile.FormatJSONL {
		err = &web.Refusal{Status: http.StatusBadRequest, Text: "Unknown format: the rows of this run are available as " +
			status.Shown(run.Format) + " and as jsonl."}
	}
	if err != nil {
		s.fail(w, r, "runs", err)
		return
	}
	err = web.SendFile(w, r, string(run.ID)+"-failed."+form, mediaTypes[form], s.log, func(out io.Writer) error {
		return run.ExportFailed(r.Context(), results.FailedOptions{JSON: form != rowfile.FormatCSV}, out)
	})
	if err != nil {
		s.fail(w, r, "runs", err)
	}
}

// rows sends all rows of a run as a file that stands by itself, as "enqueue runs results
// --with-run" writes them: GET /runs/{id}/rows, as JSON Lines with ?format=jsonl.
func (s *site) rows(w http.ResponseWriter, r *http.Request) {
	run, err := s.found(s.view(r.Context()), r)
	form := cmp.Or(r.URL.Query().Get("format"), rowfile.FormatCSV)
	mediaType := mediaTypes[form]
	if err == nil && mediaType == "" {
		err = &web.Refusal{Status: http.StatusBadRequest, Text: "Unknown format: all rows are available as csv and as jsonl."}
	}
	o := results.Options{Format: form, Run: true}
	if err == nil {
		o.Submitter, err = run.Submitter(r.Context())
	}
	if err == nil {
		err = web.SendFile(w, r, string(run.ID)+"."+form, mediaType, s.log, func(out io.Writer) error {
			return run.ExportResults(r.Context(), o, out)
		})
	}
	if err != nil {
		s.fail(w, r, "runs", err)
	}
}
