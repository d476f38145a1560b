package apiclient

import "context"

type beforeSendingKey struct{}

// BeforeSending returns a context whose requests ask first: each time that one of
// them has its permit and its token, and is about to go out, ask is called, and
// its error is returned wrapped instead, with nothing sent. For a list that is
// each page. nil asks nobody, whatever ctx says.
//
// A permit can take long, and what was known before the wait may no longer hold:
// only the caller can say whether the request is still wanted. It is a value of
// the context, as a [net/http/httptrace.ClientTrace] is, since it belongs to the
// work and not to one call: no call that is added later can be without it.
func BeforeSending(ctx context.Context, ask func(context.Context) error) context.Context {
	return context.WithValue(ctx, beforeSendingKey{}, ask)
}

// stillWanted asks whoever is to be asked before a request of ctx goes out.
func stillWanted(ctx context.Context) error {
	if ask, _ := ctx.Value(beforeSendingKey{}).(func(context.Context) error); ask != nil {
		return ask(ctx)
	}
	return nil
}

type repetitionKey struct{}

// repetition returns the context of a request that is sent again with a fresh token.
func repetition(ctx context.Context) context.Context {
	return context.WithValue(ctx, repetitionKey{}, true)
}

// IsRepetition reports whether the permit that a [Gate] is asked for replaces an earlier
// one of the same request: its token had ended, was refused, or had to be fetched first.
func IsRepetition(ctx context.Context) bool {
	is, _ := ctx.Value(repetitionKey{}).(bool)
	return is
}
