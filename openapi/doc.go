// Package openapi describes the served API in the OpenAPI formats: one v3 document for each group version and
// one v2 document for everything, as JSON and as protobuf.
//
// The schemas come from the API types at build time and are embedded, compressed. Nothing is read before a
// document is asked for, and what nobody reads for a while is forgotten.
package openapi

//go:generate go run ./gen
