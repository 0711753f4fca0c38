package crd

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// A column is a compiled printer column.
type column struct {
	head metav1.TableColumnDefinition
	path path
}

// A path finds a value. Parsed paths keep state while they search, so each search parses anew.
type path struct {
	label string
	text  string // in braces; "" finds nothing
}

func newPath(label, text string) path {
	p := path{label: label, text: "{" + text + "}"}
	if _, err := jsonpath.Parse(label, p.text); err != nil {
		p.text = ""
	}
	return p
}

// find returns the first value found.
func (p path) find(u map[string]any) (value any, search *jsonpath.JSONPath, ok bool) {
	if p.text == "" {
		return nil, nil, false
	}
	search = jsonpath.New(p.label).AllowMissingKeys(true)
	if search.Parse(p.text) != nil {
		return nil, nil, false
	}
	found, err := search.FindResults(u)
	if err != nil || len(found) == 0 || len(found[0]) == 0 || !found[0][0].CanInterface() {
		return nil, nil, false
	}
	return found[0][0].Interface(), search, true
}

const ageText = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be " +
	"set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and " +
	"is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: " +
	"https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"

const nameText = "Name must be unique within a namespace. Is required when creating resources, " +
	"although some resources may allow a client " +
	"to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration " +
	"definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"

// compileTable makes the columns behind the name. One that can't be read leaves the table without any.
func (v *version) compileTable() []column {
	if len(v.spec.AdditionalPrinterColumns) == 0 {
		return []column{{metav1.TableColumnDefinition{Name: "Age", Type: "date", Description: ageText},
			newPath("Age", ".metadata.creationTimestamp")}}
	}
	var list []column
	for _, c := range v.spec.AdditionalPrinterColumns {
		p := newPath(c.Name, c.JSONPath)
		if p.text == "" {
			return list
		}
		text := c.Description
		if text == "" {
			text = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		list = append(list, column{metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format,
			Description: text, Priority: c.Priority}, p})
	}
	return list
}

// Header implements resource.Kind.
func (k *Kind) Header(*features.Set) []metav1.TableColumnDefinition {
	cols := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: nameText}}
	for _, c := range k.at.table() {
		cols = append(cols, c.head)
	}
	return cols
}

// Rows implements resource.Kind.
func (k *Kind) Rows(*features.Set, []resource.Object) func(obj resource.Object) []any { return k.row }

func (k *Kind) row(obj resource.Object) []any {
	row := []any{obj.GetName()}
	o, err := k.seen(obj)
	for _, c := range k.at.table() {
		if err != nil {
			row = append(row, nil)
			continue
		}
		row = append(row, c.cell(o.Object))
	}
	return row
}

func (c *column) cell(u map[string]any) any {
	value, search, ok := c.path.find(u)
	if !ok {
		return nil
	}
	if c.head.Type == "string" {
		var b bytes.Buffer
		if err := search.PrintResults(&b, []reflect.Value{reflect.ValueOf(value)}); err != nil {
			return nil
		}
		return b.String()
	}
	return typed(c.head.Type, value)
}

// typed is a value as the column's type wants it; nil when it is of another one.
func typed(typ string, value any) any {
	switch x := value.(type) {
	case int64:
		switch typ {
		case "integer":
			return x
		case "number":
			return float64(x)
		}
	case float64:
		switch typ {
		case "integer":
			return int64(x)
		case "number":
			return x
		}
	case bool:
		if typ == "boolean" {
			return x
		}
	case string:
		if typ == "date" {
			return since(x)
		}
	}
	return nil
}

func since(text string) any {
	var t metav1.Time
	if t.UnmarshalQueryParameter(text) != nil {
		return "<invalid>"
	}
	return resource.Since(t)
}

// fieldLabel is the name by which a field is selected.
func fieldLabel(jsonPath string) string { return strings.TrimPrefix(jsonPath, ".") }

func (v *version) compilePaths() []path {
	var list []path
	for _, s := range v.spec.SelectableFields {
		list = append(list, newPath(fieldLabel(s.JSONPath), s.JSONPath))
	}
	return list
}

// Field implements resource.Kind.
func (k *Kind) Field(obj resource.Object, label string) string {
	switch {
	case label == "metadata.name":
		return obj.GetName()
	case label == "metadata.namespace" && k.info.Namespaced:
		return obj.GetNamespace()
	}
	for _, p := range k.at.paths() {
		if p.label != label {
			continue
		}
		if o, err := k.seen(obj); err == nil {
			if value, _, ok := p.find(o.Object); ok && value != nil {
				return fmt.Sprint(value)
			}
		}
	}
	return ""
}
