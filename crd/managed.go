package crd

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/kloop-dev/kloop/resource/codec"
)

// SetManagedFields implements metav1.Object. The embedded one converts every entry by reflection, and copies the result.
func (o *Object) SetManagedFields(list []metav1.ManagedFieldsEntry) {
	meta, ok := o.Object["metadata"].(map[string]any)
	if list == nil || !ok {
		o.Unstructured.SetManagedFields(list)
		return
	}
	out := make([]any, 0, len(list))
	for i := range list {
		e := &list[i]
		m := map[string]any{}
		for _, f := range [...]struct{ name, text string }{{"manager", e.Manager}, {"operation", string(e.Operation)},
			{"apiVersion", e.APIVersion},
			{"fieldsType", e.FieldsType}, {"subresource", e.Subresource}} {
			if f.text != "" {
				m[f.name] = f.text
			}
		}
		if e.Time != nil {
			m["time"] = e.Time.ToUnstructured()
		}
		if e.FieldsV1 != nil {
			var fields any
			if tree, ok := codec.ReadTree(string(e.FieldsV1.Raw)); ok {
				fields = tree
			} else if len(e.FieldsV1.Raw) > 0 && kjson.UnmarshalCaseSensitivePreserveInts(e.FieldsV1.Raw, &fields) != nil {
				o.Unstructured.SetManagedFields(list)
				return
			}
			m["fieldsV1"] = fields
		}
		out = append(out, m)
	}
	meta["managedFields"] = out
}

// GetManagedFields implements metav1.Object. The embedded one converts every entry by reflection.
func (o *Object) GetManagedFields() []metav1.ManagedFieldsEntry {
	meta, _ := o.Object["metadata"].(map[string]any)
	items, ok := meta["managedFields"].([]any)
	if !ok {
		return nil
	}
	list := make([]metav1.ManagedFieldsEntry, len(items))
	for i, item := range items {
		if !plainManager(item) {
			return o.Unstructured.GetManagedFields()
		}
		m, e := item.(map[string]any), &list[i]
		operation, _ := m["operation"].(string)
		e.Operation = metav1.ManagedFieldsOperationType(operation)
		e.Manager, _ = m["manager"].(string)
		e.APIVersion, _ = m["apiVersion"].(string)
		e.FieldsType, _ = m["fieldsType"].(string)
		e.Subresource, _ = m["subresource"].(string)
		if text, ok := m["time"].(string); ok {
			e.Time = timeOf(text)
		}
		if set, ok := m["fieldsV1"]; ok {
			text, err := codec.AppendTree(nil, set)
			if err != nil {
				return o.Unstructured.GetManagedFields()
			}
			e.FieldsV1 = &metav1.FieldsV1{Raw: text}
		}
	}
	return list
}

// timeOf is a time as the wire has it; nil for anything else.
func timeOf(text string) *metav1.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	return &metav1.Time{Time: t.Local()}
}

// GetManagedFields implements metav1.Object.
func (s *Stored) GetManagedFields() (list []metav1.ManagedFieldsEntry) {
	raw := s.field("managedFields")
	if raw == "" || raw[0] != '[' {
		return nil
	}
	list = []metav1.ManagedFieldsEntry{}
	eachItem(raw, 0, func(start, _ int) {
		var e metav1.ManagedFieldsEntry
		eachMember(raw, start, func(key string, _, start, end int) bool {
			value := raw[start:end]
			switch key {
			case "manager":
				e.Manager = unquoted(value)
			case "operation":
				e.Operation = metav1.ManagedFieldsOperationType(unquoted(value))
			case "apiVersion":
				e.APIVersion = unquoted(value)
			case "time":
				e.Time = timeOf(unquoted(value))
			case "fieldsType":
				e.FieldsType = unquoted(value)
			case "fieldsV1":
				if value != "null" {
					e.FieldsV1 = &metav1.FieldsV1{Raw: []byte(value)}
				}
			case "subresource":
				e.Subresource = unquoted(value)
			}
			return true
		})
		list = append(list, e)
	})
	return list
}
