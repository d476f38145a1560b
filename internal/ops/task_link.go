package ops

import (
	"context"
	"errors"
	"net/url"

	"github.com/hibiken/asynq"

	"orgops/internal/intake"
	"orgops/internal/runs"
)

// taskURL is the page of a task.
func taskURL(queue, id string) string {
	return monitorRoot + "/queues/" + url.PathEscape(queue) + "/tasks/" + url.PathEscape(id)
}

// rowTaskURL is the page of the task that stands for a row, or stood for it last and is
// still kept; empty where there is none.
func (s *site) rowTaskURL(ctx context.Context, r runs.Run, item int64) (string, error) {
	places, err := intake.TaskPlaces(ctx, s.Ledger, r, item)
	if err != nil {
		return "", err
	}
	inspector := asynq.NewInspectorFromRedisClient(s.Redis)
	kept := ""
	for _, p := range places {
		info, err := inspector.GetTaskInfo(p.Queue, p.ID)
		switch {
		case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		case err != nil:
			return "", err
		case info.State == asynq.TaskStateCompleted, info.State == asynq.TaskStateArchived:
			kept = taskURL(p.Queue, p.ID)
		default:
			return taskURL(p.Queue, p.ID), nil
		}
	}
	return kept, nil
}
