package ops

import (
	"net/http"
	"time"

	"orgops/internal/cli"
	"orgops/internal/intake"
)

// failed sends the rows of a run that did not settle well as a file, as "enqueue runs
// failed" writes them: GET /runs/{id}/failed, as JSON Lines with ?format=jsonl.
func (s *site) failed(w http.ResponseWriter, r *http.Request) {
	run, ok := s.found(r.Context(), w, r)
	if !ok {
		return
	}
	form, asJSON := run.Format, false
	switch asked := r.URL.Query().Get("format"); asked {
	case "", run.Format:
	case intake.FormatJSONL:
		form, asJSON = asked, true
	default:
		s.problem(w, r, http.StatusBadRequest, "runs", "Unknown format: the rows of this run are available as "+cli.Shown(run.Format)+" and as jsonl.")
		return
	}
	file := &download{w: w, to: http.NewResponseController(w), name: run.ID + "-failed." + form, kind: "application/jsonl"}
	if form == intake.FormatCSV {
		file.kind = "text/csv; charset=utf-8"
	} else {
		file.name = run.ID + "-failed." + intake.FormatJSONL
	}
	_, err := intake.ExportUnwell(r.Context(), s.Ledger, run, asJSON, file)
	switch {
	case err == nil:
		file.begin() // an empty one too
	case !file.begun:
		s.unread(w, r, "runs", err)
	default:
		s.logger().WarnContext(r.Context(), "download cut off", "run", run.ID, "error", err)
		panic(http.ErrAbortHandler) // the browser is not to take a part for the whole
	}
}

// download is a file that is sent as it is made. Its length is not known before.
type download struct {
	w          http.ResponseWriter
	to         *http.ResponseController
	name, kind string
	begun      bool
}

func (d *download) begin() {
	if d.begun {
		return
	}
	d.begun = true
	d.w.Header().Set("Content-Type", d.kind)
	d.w.Header().Set("Content-Disposition", `attachment; filename="`+d.name+`"`) // of a run's id: letters, digits, - and _
}

// Write gives who receives it time anew for each part: the whole may take longer than
// other answers.
func (d *download) Write(p []byte) (int, error) {
	d.begin()
	_ = d.to.SetWriteDeadline(time.Now().Add(writeTimeout)) // where there is none, none is needed
	return d.w.Write(p)
}
