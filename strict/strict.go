// Package strict reads configuration in which every word must be known, and says of one that is not what was probably meant.
package strict

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Typed reads a document strictly and checks its kind, one of several separated by blanks.
func Typed(text []byte, into any, meta *metav1.TypeMeta, kind string, versions ...string) error {
	if err := Read(text, into); err != nil {
		return err
	}
	return Kind(*meta, kind, versions...)
}

// Kind checks the kind of a document, one of several separated by blanks, and its version.
func Kind(m metav1.TypeMeta, kind string, versions ...string) error {
	known := strings.Fields(kind)
	for _, k := range known {
		for _, v := range versions {
			if m.Kind == k && m.APIVersion == v {
				return nil
			}
		}
	}
	if !strings.Contains(" "+kind+" ", " "+m.Kind+" ") || m.Kind == "" {
		return fmt.Errorf("kind %q is not %s%s", m.Kind, strings.Join(known, " or "), Meant(m.Kind, known))
	}
	return fmt.Errorf("apiVersion %q of a %s is none of %s%s", m.APIVersion, m.Kind, strings.Join(versions, ", "),
		Meant(m.APIVersion, versions))
}

var unknownField = regexp.MustCompile(`unknown field "(?:[^"]*\.)?([^".]+)"`)

// Read reads YAML that may hold nothing unknown, and says what was probably meant.
func Read(text []byte, into any) error {
	err := yaml.UnmarshalStrict(text, into)
	if err == nil {
		return nil
	}
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("unknown key %q%s", m[1], Meant(m[1], keysOf(reflect.TypeOf(into), nil)))
	}
	return Unquoted(err)
}

var quoted = regexp.MustCompile("`[^`]*`|(unknown anchor) '[^']*'")

// Unquoted keeps out of a parser's complaint what it quotes of the values in a file: it may be a secret that begins with an asterisk.
func Unquoted(err error) error {
	if err == nil || !quoted.MatchString(err.Error()) {
		return err
	}
	return errors.New(quoted.ReplaceAllString(err.Error(), "$1 (quote what begins with * or !)"))
}

// keysOf are the names of all fields of a type and of those below.
func keysOf(t reflect.Type, list []string) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return keysOf(t.Elem(), list)
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				list = append(list, name)
			}
			list = keysOf(t.Field(i).Type, list)
		}
	}
	return list
}
