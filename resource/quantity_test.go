package resource

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDearQuantity(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "1": false, "1e3": false, "1E-300": false, "-1.5e+999": false, "100Mi": false, "1e": false, "e1000": false, "beef12e": false,
		"1e1000": true, "1e-999999999": true, "-.5E+1234": true, " 7e99999 ": true, "x1e12345": true,
		strings.Repeat("9", 100): false, strings.Repeat("9", 101): true, "0." + strings.Repeat("0", 99): true, "1e5e5e5e55555": false,
	} {
		t.Run(text, func(t *testing.T) {
			if got := DearQuantity(text); got != want {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
			if _, err := ParseQuantity(text); want && err != apiresource.ErrFormatWrong {
				t.Errorf("%q is read: %v", text, err)
			}
		})
	}
}

func TestSpoilQuantities(t *testing.T) {
	if got := SpoilQuantities([]byte(`{"cpu":"1e3","e":100,"x":"1e-99"}`)); got != nil {
		t.Errorf("harmless text became %s", got)
	}
	for doc, want := range map[string]string{
		`{"cpu":"1e9999"}`:                       `{"cpu":"!e9999"}`,
		`{"cpu":" -1.5E-99999","a":"b"}`:         `{"cpu":" -!.5E-99999","a":"b"}`,
		`{"cpu":1e9999,"x":-1E-12345}`:           `{"cpu":"!"   ,"x":"!"      }`,
		`["a\"1e9999","\\",1e9999]`:              `["a\"!e9999","\\","!"   ]`,
		`{"1e9999":"2e9999","ok":"1e3","n":1e4}`: `{"!e9999":"!e9999","ok":"1e3","n":1e4}`,
	} {
		t.Run(doc, func(t *testing.T) {
			if got := SpoilQuantities([]byte(doc)); string(got) != want || !json.Valid(got) {
				t.Errorf("%s became\n%s, want\n%s", doc, got, want)
			}
		})
	}
	tree := map[string]any{"a": []any{"1e9999", "1"}, "b": map[string]any{"c": "x"}}
	got := SpoilTree(tree)
	if list := got["a"].([]any); list[0] != spoiled || list[1] != "1" || tree["a"].([]any)[0] != "1e9999" {
		t.Errorf("%v became %v", tree, got)
	}
	if SpoilTree(map[string]any{"a": []any{"1e3", int64(5)}}) != nil {
		t.Error("a harmless tree is changed")
	}
}

// Only what is a quantity in a message is refused: names, labels and lengths may look like one.
func TestCheckQuantities(t *testing.T) {
	some := apiresource.MustParse("1234567")
	message := func(edit func(*corev1.Pod)) string {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "1e99999", Annotations: map[string]string{"1e99999": "1e99999"}},
			Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "1e99999"}}}}
		edit(p)
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, edit := range map[string]func(*corev1.Pod){
		"limits": func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"1e99999": some}}}}
		},
		"pointer": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &some}}}}
		},
		"value": func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{
				ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Divisor: some}}}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			harmless := message(edit)
			if err := CheckQuantities([]byte(harmless), &corev1.Pod{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			dear := strings.Replace(harmless, "\x0a\x071234567", "\x0a\x071e77777", 1)
			if err := CheckQuantities([]byte(dear), &corev1.Pod{}); err == nil || dear == harmless {
				t.Errorf("%s: a dear quantity is let through", name)
			}
		})
	}
	for _, junk := range []string{"1e99999", "\x0a\xff1e99999", "\x0a\x071e99999", "\x12\x091e99999\x0a\x05"} {
		if err := CheckQuantities([]byte(junk), &corev1.Pod{}); err != nil {
			t.Errorf("%q: %v", junk, err)
		}
	}
}

// What holds no quantity is not searched for one, and what holds itself ends.
func TestHoldsQuantity(t *testing.T) {
	for _, c := range []struct {
		name string
		obj  any
		want bool
	}{
		{"pod",
			&corev1.Pod{}, true},
		{"quota",
			&corev1.ResourceQuota{}, true},
		{"list of claims",
			&corev1.PersistentVolumeClaimList{}, true},
		{"config map",
			&corev1.ConfigMap{}, false},
		{"definition", &apiextensionsv1.CustomResourceDefinition{}, false},
		{"tree", &map[string]any{}, false},
		{"nothing", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := HoldsQuantity(c.obj); got != c.want {
				t.Errorf("%T: %v", c.obj, got)
			}
		})
	}
}

// Types that hold themselves lead to what they hold, and to nothing else.
func TestLeadsTo(t *testing.T) {
	type list struct {
		Next  *list
		Lists map[string][]list
		When  []*metav1.Time
	}
	schema := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	if leadsTo(schema, timeType, quantityType) || len(timeFields(schema)) > 0 || len(timeFields(reflect.TypeFor[list]())) != 3 ||
		leadsTo(reflect.TypeFor[list](), microType) {
		t.Error("a type leads to what it does not hold, or not to what it does")
	}
}
