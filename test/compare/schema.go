package main

import (
	"context"
	"strings"
)

// A schema describes a value, as a server's OpenAPI v3 does.
type schema struct {
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Ref        string             `json:"$ref"`
	Enum       []any              `json:"enum"`
	AllOf      []*schema          `json:"allOf"`
	OneOf      []*schema          `json:"oneOf"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
	Additional *schema            `json:"additionalProperties"`
	GVKs       []gvk              `json:"x-kubernetes-group-version-kind"`
	MergeKey   string             `json:"x-kubernetes-patch-merge-key"`

	in map[string]*schema // where references lead
}

type gvk struct{ Group, Version, Kind string }

// schemas reads the documents of all groups.
func schemas(ctx context.Context, s *server) (map[gvk]*schema, error) {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := s.get(ctx, "/openapi/v3", "", &index); err != nil {
		return nil, err
	}
	all := map[gvk]*schema{}
	for path, p := range index.Paths {
		if !strings.HasPrefix(path, "api") {
			continue
		}
		var doc struct {
			Components struct{ Schemas map[string]*schema }
		}
		if err := s.get(ctx, p.URL, "", &doc); err != nil {
			continue // of a group that went meanwhile
		}
		for _, one := range doc.Components.Schemas {
			one.in = doc.Components.Schemas
			for _, k := range one.GVKs {
				if len(one.GVKs) == 1 || all[k] == nil {
					all[k] = one
				}
			}
		}
	}
	return all, nil
}

// resolved follows references.
func (s *schema) resolved() *schema {
	for range 10 {
		next := s
		switch {
		case s == nil:
			return &schema{}
		case s.Ref != "":
			next = s.in[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
		case len(s.AllOf) == 1:
			next = s.AllOf[0]
		case s.Type == "" && len(s.OneOf) == 2:
			return &schema{Type: "int-or-string"}
		}
		if next == s {
			break
		}
		if next != nil && next.in == nil {
			next.in = s.in
		}
		s = next
	}
	return s
}

// child is the schema of what lies below s.
func (s *schema) child(of *schema) *schema {
	if of != nil && of.in == nil {
		of.in = s.in
	}
	return of.resolved()
}
