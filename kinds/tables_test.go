package kinds_test

import (
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// The columns of kinds whose tables are unlike the others.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		kind resource.Kind
		want string
	}{
		{kinds.IPAddresses, "Name/name ParentRef/"},
		{kinds.StorageVersionMigrations, "Name/ Resource/"},
		{kinds.DeviceTaintRules, "Name/name Key/ Value/ Effect/ TimeAdded/ Age/"},
	} {
		var columns []string
		for _, h := range c.kind.Header() {
			columns = append(columns, h.Name+"/"+h.Format)
		}
		if got := strings.Join(columns, " "); got != c.want {
			t.Errorf("%s: columns %s, want %s", c.kind.Info().Plural, got, c.want)
		}
	}
}

func TestFlowSchemasInTheOrderTheyMatch(t *testing.T) {
	schema := func(name string, precedence int32) resource.Object {
		return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: precedence}}
	}
	list := []resource.Object{schema("a", 9), schema("c", 1), schema("b", 1)}
	slices.SortFunc(list, kinds.FlowSchemas.RowOrder())
	for i, want := range []string{"b", "c", "a"} {
		if got := list[i].GetName(); got != want {
			t.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
	if kinds.Pods.RowOrder() != nil {
		t.Error("pods are listed in an order of their own")
	}
}
