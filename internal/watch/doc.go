// Package watch remembers, in Redis, what sweeps have to know from one to the next:
// of each discovery domain what was seen of its token, of each tenant what is kept
// for all of its domains, and which tick its schedule has come to.
//
// What it remembers is written by others, who also read it: here it is bytes. Each
// is replaced only by who knows what was there before, so that of two executions of
// one task one writes. All keys of a tenant share a hash tag.
package watch
