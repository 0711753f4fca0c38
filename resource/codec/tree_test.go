package codec

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

func TestAppendTree(t *testing.T) {
	for _, v := range []any{
		nil, true, int64(-5), "", "plain", "é <b> & \" \\ \u2028 \x01 \x7f", string([]byte{0xff}), 1.5, 1e30, float64(1), int32(3),
		json.Number("7"),
		map[string]any{}, map[string]any(nil), []any{}, []any(nil), map[string]any{"b": []any{int64(1), nil, "x"},
			"a": map[string]any{"z": true, "A": false}, "": "é"},
		map[string]string{"a": "<"}, strings.Repeat("long ", 100),
	} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := AppendTree(nil, v); err != nil || string(got) != string(want) {
			t.Errorf("%v: %s, want %s, %v", v, got, want, err)
		}
	}
	for _, v := range []any{math.NaN(), []any{math.Inf(1)}, map[string]any{"a": make(chan int)}} {
		if got, err := AppendTree(nil, v); err == nil {
			t.Errorf("%v: %s", v, got)
		}
	}
}

func FuzzAppendTree(f *testing.F) {
	f.Add(`{"a":[1,2.5,"x",{"b":null}],"\u0000<":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &v) != nil {
			return
		}
		want, err := json.Marshal(v)
		if err != nil {
			return
		}
		if got, err := AppendTree(nil, v); err != nil || string(got) != string(want) {
			t.Errorf("%s, want %s, %v", got, want, err)
		}
	})
}
