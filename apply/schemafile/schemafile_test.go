package schemafile

import (
	"reflect"
	"testing"

	gvks "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

func example() *File {
	str, name, rel := schema.String, "b", schema.Atomic
	return &File{
		Kinds: map[gvks.GroupVersionKind]string{{Group: "g", Version: "v", Kind: "K"}: "a"},
		Types: []schema.TypeDef{
			{Name: "a", Atom: schema.Atom{Map: &schema.Map{ElementRelationship: schema.Separable, Fields: []schema.StructField{
				{Name: "f", Default: "", Type: schema.TypeRef{Inlined: schema.Atom{Scalar: &str}}},
				{Name: "g", Default: float64(3), Type: schema.TypeRef{NamedType: &name, ElementRelationship: &rel, Nullable: true}},
			}}}},
			{Name: "b", Atom: schema.Atom{Scalar: &str, List: &schema.List{ElementRelationship: schema.Associative,
				Keys: []string{"x", "y"}, ElementType: schema.TypeRef{NamedType: &name}}}},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	want := example()
	b, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	b, _ := Encode(example())
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = Decode(b) })
}
