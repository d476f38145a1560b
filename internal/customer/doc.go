// Package customer tells a company's customer which TXT record to publish for a discovery domain:
// in a text that can be mailed, and on the page that the customer opens by a link. The page also
// has the result of the last check, and a button that requests another.
//
// A link needs no sign-in. Its path has a token: tenant, organization, domain, the time at which it
// expires, and a nonce, with an HMAC of them by a key that only the servers have. The nonce is kept
// in Redis. Without it no link to the domain is valid: after a revocation, and in an emptied Redis.
//
// The sentences are in texts.tmpl, to be translated there. The files, each of which uses those
// below it:
//
//	page.go          the page, and the answer to a link that is not valid
//	difference.go    the difference between the expected and the found record
//	links.go         makes, opens and revokes links
//	token.go         the token of a link, and the keys that sign it
//	instructions.go  the record to publish, in each format
package customer
