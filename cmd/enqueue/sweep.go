package main

import (
	"context"

	"orgops/internal/pace"
	"orgops/tasks"
)

// rules are what the tenant's workers decide by.
func (t *tool) rules(ctx context.Context, tenant string) (tasks.Rules, error) {
	settings, _, err := pace.Announced(ctx, t.redis, tenant)
	_ = settings
	return tasks.Rules{Action: tasks.ActReport}, err
}
