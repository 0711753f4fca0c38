//go:build reader

package dra

import "k8s.io/apimachinery/pkg/util/validation/field"

// compiles is not asked by a program that only reads.
func compiles(string, *field.Path) field.ErrorList { return nil }
