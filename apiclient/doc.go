// Package apiclient is the client of an identity platform's Management API:
// the three operations that change something (a discovery domain's status, an
// organization's client associations, a verification template) and the reads
// that go with them.
//
// # What a caller can rely on
//
// Nothing that the specification refuses is ever sent: every limit, pattern
// and enumeration of its sections 2, 4 and 8 is checked first, and a
// [*ValidationError] names each broken rule with its field and value.
//
// Every method sends its request at most once, with one exception: when the
// API answers 401, or 403 because the token lacks a scope and was not fetched just
// now, the request goes out once more with a fresh token, if there is one. Whether
// and when to try again is the caller's decision.
//
// What goes wrong has one of these types, all reached by [errors.As]:
//
//   - [*ValidationError]: nothing was sent; the request breaks a rule.
//   - the error of the [Gate], or of who asked to be asked ([BeforeSending]), as
//     it is: nothing was sent.
//   - [*TokenError]: there is no token; nothing was sent to the API.
//   - [*TransportError]: no answer, or not the whole of it in time. Its Sent
//     tells whether the API may have acted.
//   - [*Error]: the API answered with a status that is not 2xx.
//   - [*AnswerError]: the API answered 2xx, with something that is no answer to
//     the question. A change may well have been made.
//
// Redirects are not followed, bodies are read up to a bound, and no secret is
// in any error, also not where an answer repeats it.
//
// Lists are iterators over checkpoint paging. They ask for a page when the
// consumer gets there, and stop when it breaks off, when the context ends, and
// at the first error, which is the last pair that they yield.
package apiclient
