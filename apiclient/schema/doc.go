// Package schema has the objects of the Management API and the rules of its specification: names
// of operations, records, and the checks of requests. It sends nothing: package apiclient does.
//
// Each file uses those below it:
//
//	decode.go         reads a template's request strictly
//	templates.go      templates, and their rules
//	presentation.go   the claims of a template
//	domains.go        discovery domains
//	organizations.go  organizations
//	operations.go     the names of the operations
//	validate.go       the rules of requests, and the error of a broken one
package schema
