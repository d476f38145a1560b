package dnscheck

import (
	"context"
	"fmt"
)

// QuestionError is a permanent error: the host is not a name that the DNS could hold a
// verification record at, or the token is empty.
type QuestionError struct {
	Host    string // as it was given
	Problem string // with a remedy
}

// Error contains the host, quoted and capped, and the problem.
func (e *QuestionError) Error() string {
	return fmt.Sprintf("verification host %s: %s", shown(e.Host, maxName), e.Problem)
}

// CheckHost checks that host can be queried: at least two labels, each of 1 to 63 letters,
// digits, hyphens and underscores, at most 253 bytes, with or without a final dot. It refuses
// IP addresses, names that the public DNS does not serve (localhost, invalid and local:
// RFC 6761, 6762; onion: RFC 7686), and names of its infrastructure (arpa: RFC 3172). The
// error is a *QuestionError.
func CheckHost(host string) error {
	if problem := nameProblem(host, "the full name of the TXT record"); problem != "" {
		return &QuestionError{Host: host, Problem: problem}
	}
	return nil
}

// question is a host, the token that should be there, and the purpose of the answer.
type question struct {
	host, token      string
	purpose          purpose
	checkingDisabled bool              // resolvers return bogus answers, too
	observe          func(Observation) // nil: not called
}

type purpose int

const (
	forCheck purpose = iota
	forAdvice
	forProof
	forDisproof
)

// validate returns a *QuestionError, or the context's error.
func (q question) validate(ctx context.Context) error {
	if err := CheckHost(q.host); err != nil {
		return err
	}
	if q.token == "" {
		return &QuestionError{Host: q.host, Problem: "the token is empty: any answer would match"}
	}
	if ctx.Err() != nil {
		return contextError(ctx, q.host)
	}
	return nil
}

func contextError(ctx context.Context, host string) error {
	return fmt.Errorf("check the TXT record at %s: %w", shownHost(host), ctx.Err())
}
