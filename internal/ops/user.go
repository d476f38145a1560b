package ops

import "context"

type userKey struct{}

// withUser says on whose behalf the requests of ctx are.
func withUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

// UserOf is who has made the request, as it was found out when it came in; empty
// where nobody was asked.
func UserOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}
