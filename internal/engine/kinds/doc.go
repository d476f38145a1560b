// Package kinds has the handlers of the kinds of rows, a file for each. A file begins
// with the reason why its rows may be executed twice.
package kinds
