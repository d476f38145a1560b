package console

import (
	"net/http"

	"orgops/internal/intake"
	"orgops/internal/status"
	"orgops/internal/web"
)

// failed sends the failed rows of a run as a file, as "enqueue runs failed" writes them: GET
// /runs/{id}/failed, as JSON Lines with ?format=jsonl.
func (s *site) failed(w http.ResponseWriter, r *http.Request) {
	run, err := s.found(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, "runs", err)
		return
	}
	form := run.Format
	switch asked := r.URL.Query().Get("format"); asked {
	case "", run.Format:
	case intake.FormatJSONL:
		form = asked
	default:
		s.problem(w, r, http.StatusBadRequest, "runs", "Unknown format: the rows of this run are available as "+status.Shown(run.Format)+" and as jsonl.")
		return
	}
	file := &web.Download{To: w, Name: string(run.ID) + "-failed.jsonl", Type: "application/jsonl"}
	if form == intake.FormatCSV {
		file.Name, file.Type = string(run.ID)+"-failed.csv", "text/csv; charset=utf-8"
	}
	_, err = intake.ExportFailed(r.Context(), s.Ledger, run, form != intake.FormatCSV, file)
	switch {
	case err == nil:
		file.Begin()
	case !file.Begun:
		s.fail(w, r, "runs", err)
	default:
		s.Logger.WarnContext(r.Context(), "download cut off", "run", run.ID, "error", err)
		panic(http.ErrAbortHandler) // so that the browser reports an incomplete file
	}
}
