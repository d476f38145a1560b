package console

import (
	"cmp"
	"io"
	"net/http"

	"orgops/internal/intake"
	"orgops/internal/status"
	"orgops/internal/web"
)

// failed sends the failed rows of a run as a file, as "enqueue runs failed" writes them: GET
// /runs/{id}/failed, as JSON Lines with ?format=jsonl.
func (s *site) failed(w http.ResponseWriter, r *http.Request) {
	run, err := s.found(s.view(r.Context()), r)
	form := cmp.Or(r.URL.Query().Get("format"), run.Format)
	if err == nil && form != run.Format && form != intake.FormatJSONL {
		err = &web.Refusal{Status: http.StatusBadRequest, Text: "Unknown format: the rows of this run are available as " +
			status.Shown(run.Format) + " and as jsonl."}
	}
	if err != nil {
		s.fail(w, r, "runs", err)
		return
	}
	name, mediaType := string(run.ID)+"-failed.jsonl", "application/jsonl"
	if form == intake.FormatCSV {
		name, mediaType = string(run.ID)+"-failed.csv", "text/csv; charset=utf-8"
	}
	err = web.SendFile(w, r, name, mediaType, s.log, func(out io.Writer) error {
		return run.ExportFailed(r.Context(), intake.Export{JSON: form != intake.FormatCSV}, out)
	})
	if err != nil {
		s.fail(w, r, "runs", err)
	}
}
