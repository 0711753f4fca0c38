package resource

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// A Column is one column of the server-side table, as `kubectl get` prints it.
type Column[T Object] struct {
	Name        string // "Ready"; "": rows have the cell, the header says nothing of it
	Type        string // string, integer, number, boolean or date
	Format      string // "name" and the like; usually empty
	Priority    int32  // 0: always; 1: only with -o wide
	Description string
	Cell        func(T) any
}

// Col is shorthand for a column that is always shown.
func Col[T Object](name, typ string, cell func(T) any) Column[T] {
	return Column[T]{Name: name, Type: typ, Cell: cell}
}

// Wide is shorthand for a column of -o wide.
func Wide[T Object](name, typ string, cell func(T) any) Column[T] {
	return Column[T]{Name: name, Type: typ, Priority: 1, Cell: cell}
}

// Name is the column NAME for a kind that prints more than the name in it, or not in front.
func Name[T Object](cell func(T) any) Column[T] {
	return Column[T]{Name: "Name", Type: "string", Format: "name", Cell: cell,
		Description: "Name is the object's name, unique within its namespace."}
}

// Age is the column of the time since creation.
func Age[T Object]() Column[T] {
	return Column[T]{Name: "Age", Type: "string", Cell: func(o T) any { return Since(o.GetCreationTimestamp()) }}
}

// Since says how long ago t was the way kubectl does: 5m, 3d4h; <unknown> for the zero time.
func Since(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}
