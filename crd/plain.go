package crd

import (
	"slices"
	"time"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// plain says for sure that coerce would leave a tree as it is: each field is in the schema, nothing is null, no object has others in it,
// and the metadata is as it is written. Almost all trees are so, and the library, which copies the schema of every field that it comes to
// and decodes the metadata, takes some twenty times as long to find out.
func plain(u map[string]any, s *structural.Structural) bool {
	if s == nil || s.XEmbeddedResource {
		return false
	}
	for name, v := range u {
		switch name {
		case "apiVersion", "kind":
			if _, ok := v.(string); !ok {
				return false
			}
		case "metadata":
			if meta, ok := v.(map[string]any); !ok || !plainMeta(meta) {
				return false
			}
		default:
			if !plainField(name, v, s) {
				return false
			}
		}
	}
	return true
}

// plainField is plain for a field of an object that has the schema.
func plainField(name string, v any, s *structural.Structural) bool {
	if field, ok := s.Properties[name]; ok {
		return plainValue(v, &field)
	}
	if s.AdditionalProperties != nil {
		return plainValue(v, s.AdditionalProperties.Structural)
	}
	return s.XPreserveUnknownFields
}

func plainValue(v any, s *structural.Structural) bool {
	switch x := v.(type) {
	case nil:
		return false
	case map[string]any:
		if s == nil || s.XEmbeddedResource {
			return false
		}
		for name, of := range x {
			if !plainField(name, of, s) {
				return false
			}
		}
	case []any:
		if s == nil || s.XPreserveUnknownFields {
			return false
		}
		for _, of := range x {
			if !plainValue(of, s.Items) {
				return false
			}
		}
	}
	return true
}

// plainMeta says for sure that metadata is written as it stands here once it has been read as its type.
func plainMeta(meta map[string]any) bool {
	for name, v := range meta {
		plain := false
		switch name {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			plain = saysSomething(v)
		case "generation":
			n, ok := v.(int64)
			plain = ok && n != 0
		case "deletionGracePeriodSeconds":
			_, plain = v.(int64)
		case "creationTimestamp", "deletionTimestamp":
			plain = plainTime(v)
		case "labels", "annotations":
			m, ok := v.(map[string]any)
			plain = ok && len(m) > 0
			for _, text := range m {
				_, ok := text.(string)
				plain = plain && ok
			}
		case "finalizers":
			plain = each(v, func(item any) bool { _, ok := item.(string); return ok })
		case "ownerReferences":
			plain = each(v, plainOwner)
		case "managedFields":
			plain = each(v, plainManager)
		}
		if !plain {
			return false
		}
	}
	return true
}

// saysSomething is true of a text that is written, as one that is empty is left out.
func saysSomething(v any) bool {
	text, ok := v.(string)
	return ok && text != ""
}

// plainTime is true of a time that is written as it is read.
func plainTime(v any) bool {
	text, _ := v.(string)
	t, err := time.Parse(time.RFC3339, text)
	return err == nil && !t.IsZero() && t.UTC().Format(time.RFC3339) == text
}

// each says that v is a list with something in it, and all of it is plain.
func each(v any, plain func(item any) bool) bool {
	list, ok := v.([]any)
	return ok && len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool { return !plain(item) })
}

// plainOwner is plainMeta for the reference to an owner.
func plainOwner(v any) bool {
	owner, _ := v.(map[string]any)
	texts := 0
	for name, v := range owner {
		ok := false
		switch name {
		case "apiVersion", "kind", "name", "uid": // written even if they are empty
			_, ok = v.(string)
			texts++
		case "controller", "blockOwnerDeletion":
			_, ok = v.(bool)
		}
		if !ok {
			return false
		}
	}
	return texts == 4
}

// plainManager is plainMeta for an entry of a manager of fields.
func plainManager(v any) bool {
	manager, ok := v.(map[string]any)
	for name, v := range manager {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = saysSomething(v)
		case "time":
			ok = plainTime(v)
		case "fieldsV1":
			ok = plainSet(v)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return ok
}

// plainSet is true of maps in maps.
func plainSet(v any) bool {
	m, ok := v.(map[string]any)
	for _, of := range m {
		ok = ok && plainSet(of)
	}
	return ok
}
