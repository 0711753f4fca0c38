package crd

import (
	"slices"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is older than what is known takes no name back, and who waits for a name is found when it is free.
func TestNames(t *testing.T) {
	def := func(name, plural string, rev int) *apiextensionsv1.CustomResourceDefinition {
		d := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "x.example",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural + "-one", Kind: plural,
				ListKind: plural + "List"}}}
		d.Name, d.ResourceVersion = name, strconv.Itoa(rev)
		return d
	}
	var n Names
	first := def("a", "things", 3)
	first.Status = n.Accept(first, metav1.Now())
	n.Note(def("a", "things", 2)) // without a name yet
	second := def("b", "things", 4)
	if second.Status = n.Accept(second, metav1.Now()); Is(second, apiextensionsv1.NamesAccepted) {
		t.Error("an old state took a name back")
	}
	second.ResourceVersion = "6"
	n.Note(second)
	n.Note(def("c", "others", 6)) // will be looked at for its own sake
	first.ResourceVersion = "5"
	n.Note(first)
	if got := n.Waiting("x.example"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("waiting: %v", got)
	}
	n.Keep(map[string]bool{"b": true})
	if second.Status = n.Accept(second, metav1.Now()); !Is(second, apiextensionsv1.NamesAccepted) {
		t.Error("a name that is free was refused")
	}
	second.ResourceVersion = "7"
	n.Note(second)
	if got := n.Waiting("x.example"); got != nil {
		t.Errorf("waiting: %v", got)
	}
}
