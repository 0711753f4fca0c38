// Package openapi describes the served API in the OpenAPI formats: one v3 document for each group version and
// one v2 document for everything.
package openapi

//go:generate go run ./gen
