package status

import (
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/tasks"
)

// Undo says how the changes of a run are undone: by a command of an operator, which may be run
// again without harm.
type Undo struct {
	Command string `json:"command"`
	Effect  string `json:"effect"` // what the command does
}

// UndoOf returns how the changes of a run are undone, also while they are being made; nil: it has
// changed nothing, or no command undoes it. Neither command sets a domain to verified, or uses it
// for discovery again, without a new proof: meanwhile it may be a stranger's.
func UndoOf(r ledger.Run) *Undo {
	changedNothing := r.Ended() && r.Counts[ledger.Done] == 0
	if changedNothing || r.Undoes != "" {
		return nil
	}

	var undo *Undo
	switch r.Kind {
	case tasks.TypeRevoke:
		undo = undoOfRevocation(string(r.Tenant), string(r.ID))
	case tasks.TypeUpdate:
		undo = &Undo{Command: undoBy("domains update", string(r.Tenant), string(r.ID)),
			Effect: "the values that the run has replaced are put back; a domain that was verified is proven first; a record " +
				"that was changed since is left as it is"}
	default:
		return nil
	}
	if !r.Ended() {
		undo.Effect += "; end the run first: " + remedy.Cancel(string(r.ID)).String()
	}
	return undo
}

// undoOfRevocation returns how the revocations of a run are undone.
func undoOfRevocation(tenant, run string) *Undo {
	return &Undo{Command: undoBy("domains revoke", tenant, run),
		Effect: "each domain that the run has revoked is proven, and then restored; one whose TXT record is gone stays " +
			"revoked; a sweep that finds the record restores it too"}
}

func undoBy(command, tenant, run string) string {
	return remedy.Command{Name: command, Flags: "--undo " + run + " --tenant " + tenant}.String()
}

// facts returns how a run is undone; none of nil.
func (u *Undo) facts() []Fact {
	if u == nil {
		return nil
	}
	return []Fact{{Name: "undo", Text: u.Command, Code: true}, {Name: "its effect", Text: u.Effect}}
}

// String returns the command and what it does; "" of nil.
func (u *Undo) String() string {
	if u == nil {
		return ""
	}
	return u.Command + " (" + u.Effect + ")"
}
