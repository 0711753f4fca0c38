package kinds_test

import (
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
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
		{kinds.StorageVersionMigrations, "Name/ Resource/ Status/"},
		{kinds.PodCertificateRequests, "Name/name PodName/ ServiceAccountName/ NodeName/ SignerName/ State/ UnverifiedUserAnnotations/"},
		{kinds.DeviceTaintRules, "Name/name Key/ Value/ Effect/ TimeAdded/ Age/"},
	} {
		t.Run(c.kind.Info().Plural, func(t *testing.T) {
			var columns []string
			for _, h := range c.kind.Header(nil) {
				columns = append(columns, h.Name+"/"+h.Format)
			}
			if got := strings.Join(columns, " "); got != c.want {
				t.Errorf("%s: columns %s, want %s", c.kind.Info().Plural, got, c.want)
			}
		})
	}
}

func TestFlowSchemasInTheOrderTheyMatch(t *testing.T) {
	schema := func(name string, precedence int32) resource.Object {
		return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: precedence}}
	}
	list := []resource.Object{schema("a", 9), schema("c", 1), schema("b", 1)}
	slices.SortFunc(list, resource.RowOrder(kinds.FlowSchemas))
	for i, want := range []string{"b", "c", "a"} {
		if got := list[i].GetName(); got != want {
			t.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
	if resource.RowOrder(kinds.Pods) != nil {
		t.Error("pods are listed in an order of their own")
	}
}

// Of several classes that say they are the default the newest is; up to 1.36 all are shown as such, and each alone.
func TestDefaultClassInTables(t *testing.T) {
	class := func(name, says string, made int64) resource.Object {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(made, 0),
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": says}}}
	}
	list := []resource.Object{class("a", "true", 5), class("c", "true", 7), class("b", "true", 7), class("d", "false", 9)}
	for minor, want := range map[int]string{36: "a (default) c (default) b (default) d", 37: "a c b (default) d"} {
		on, err := features.New(minor, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		cells := kinds.StorageClasses.Rows(on, list)
		for _, c := range list {
			got = append(got, cells(c)[0].(string))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("1.%d: %s, want %s", minor, s, want)
		}
		alone := map[int]string{36: "a (default)", 37: "a"}[minor]
		if got := kinds.StorageClasses.Rows(on, nil)(list[0])[0]; got != alone {
			t.Errorf("1.%d: alone %v, want %s", minor, got, alone)
		}
	}
}

// A bookmark is shown as a row of an object that holds nothing.
func TestRowOfNothing(t *testing.T) {
	for _, k := range kinds.All() {
		func() {
			defer func() {
				if why := recover(); why != nil {
					t.Errorf("%s: %v", k.Info().Plural, why)
				}
			}()
			k.Rows(nil, nil)(k.New(k.Info().GVK))
		}()
	}
}
