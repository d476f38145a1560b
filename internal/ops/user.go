package ops

import "context"

type userKey struct{}

// withUser is ctx with who makes the request in it.
func withUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

// UserOf is the name of who makes the request; empty where nobody is asked.
func UserOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}
