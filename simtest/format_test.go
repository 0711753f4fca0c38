package simtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// In both formats events are told apart, bookmarks are known, and a watch can be told that it has lost its place.
func TestFormats(t *testing.T) {
	frame := func(kind string) string {
		event, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: []byte("x")}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(event)))) + string(event)
	}
	for _, c := range []struct {
		mediaType string
		events    []string
	}{
		{"application/json", []string{`{"type":"ADDED"}` + "\n", `{"type":"BOOKMARK"}` + "\n"}},
		{codec.Protobuf + ";stream=watch", []string{frame("ADDED"), frame("BOOKMARK")}},
	} {
		t.Run(c.mediaType, func(t *testing.T) {
			f := formatOf(&http.Response{Header: http.Header{"Content-Type": {c.mediaType}}})
			from := bufio.NewReader(strings.NewReader(strings.Join(c.events, "") + "\xff"))
			for i, want := range c.events {
				got, err := f.next(from)
				if err != nil || string(got) != want || f.bookmark(got) != (i == 1) {
					t.Errorf("%s: event %d is %q, bookmark: %t, %v", c.mediaType, i, got, f.bookmark(got), err)
				}
			}
			if got, err := f.next(from); err == nil {
				t.Errorf("%s: half an event is %q", c.mediaType, got)
			}
			if !bytes.Contains(f.expired(), []byte("Expired")) {
				t.Errorf("%s: %q does not say why", c.mediaType, f.expired())
			}
		})
	}
}

// A frame cannot make the simulation take room without end.
func TestFrameTooLong(t *testing.T) {
	if _, err := nextFrame(bufio.NewReader(strings.NewReader("\xff\xff\xff\xff"))); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

// What an object wants changes its content; its status and what the server counts do not.
func TestContent(t *testing.T) {
	was := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "1", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	sum := func(d *appsv1.Deployment) (out [32]byte) {
		out, ok := content(kinds.Deployments, d)
		if !ok {
			t.Error("it has no content")
		}
		return out
	}
	first := sum(was)
	now := resource.Clone(was)
	now.ResourceVersion, now.Generation, now.ManagedFields, now.Status.Replicas = "2", 3, nil, 4
	if sum(now) != first {
		t.Error("its status or a number of the server counts")
	}
	now.Spec.Replicas = new(int32(2))
	if sum(now) == first {
		t.Error("its replicas do not count")
	}
	if was.ResourceVersion != "1" || len(was.ManagedFields) != 1 || now.Status.Replicas != 4 {
		t.Error("the object itself was changed")
	}
}
