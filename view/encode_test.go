package view_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// scalers has two versions.
var scalers = &resource.Def[*autoscalingv2.HorizontalPodAutoscaler]{
	GVK: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Plural: "horizontalpodautoscalers", Namespaced: true,
	Also: []resource.Version[*autoscalingv2.HorizontalPodAutoscaler]{older("v1"), older("v1alpha1")}}

func older(version string) resource.Version[*autoscalingv2.HorizontalPodAutoscaler] {
	return resource.Version[*autoscalingv2.HorizontalPodAutoscaler]{
		GVK: schema.GroupVersionKind{Group: "autoscaling", Version: version, Kind: "HorizontalPodAutoscaler"},
		New: func() resource.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		From: func(h *autoscalingv2.HorizontalPodAutoscaler) resource.Object {
			return &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta,
				Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: h.Spec.MaxReplicas}}
		}}
}

func hpa() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "h"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 7}}
}

func TestEncodings(t *testing.T) {
	r := start(t, view.Config{}, pods, scalers)
	r.put(pods, pod("a", "x"))
	s := r.wait(r.put(scalers, hpa()))
	for _, c := range []struct {
		k   resource.Kind
		gvk schema.GroupVersionKind
		e   *view.Entry
	}{
		{pods, pods.GVK, s.Entry(pods, "a", "x")},
		{scalers, scalers.GVK, s.Entry(scalers, "a", "h")},
		{scalers, scalers.Also[0].GVK, s.Entry(scalers, "a", "h")},
		{scalers, scalers.Also[1].GVK, s.Entry(scalers, "a", "h")},
	} {
		t.Run(c.gvk.String(), func(t *testing.T) {
			obj, err := c.k.ConvertTo(t.Context(), c.e.Object, c.gvk)
			if err != nil {
				t.Fatal(err)
			}
			fresh, _ := codec.MarshalJSON(obj)
			got, err := c.e.JSON(t.Context(), c.gvk)
			if err != nil || string(got) != string(fresh) {
				t.Errorf("JSON of %s: %v\n%s, want\n%s", c.gvk, err, got, fresh)
			}
			if again, _ := c.e.JSON(t.Context(), c.gvk); &again[0] != &got[0] {
				t.Errorf("JSON of %s was made twice", c.gvk)
			}
			open, rest, err := c.e.ItemJSON(t.Context(), c.gvk)
			if err != nil || strings.Contains(string(rest), `"apiVersion":"`+c.gvk.GroupVersion().String()) {
				t.Errorf("item of %s: %s%s, %v", c.gvk, open, rest, err)
			}
			var item, whole map[string]any
			if err := json.Unmarshal(append(append([]byte{}, open...), rest...), &item); err != nil {
				t.Errorf("item of %s: %s%s: %v", c.gvk, open, rest, err)
			}
			_ = json.Unmarshal(fresh, &whole)
			delete(whole, "kind")
			delete(whole, "apiVersion")
			if fmt.Sprint(item) != fmt.Sprint(whole) {
				t.Errorf("item of %s: %v, want %v", c.gvk, item, whole)
			}
			want, _ := codec.RawProto(obj)
			raw, err := c.e.RawProto(t.Context(), c.gvk)
			if err != nil || string(raw) != string(want) {
				t.Errorf("protobuf of %s: %v", c.gvk, err)
			}
		})
	}
	if _, err := s.Entry(pods, "a", "x").JSON(t.Context(), scalers.GVK); err == nil {
		t.Error("a pod as a scaler")
	}
}

func TestLast(t *testing.T) {
	r := start(t, view.Config{})
	c := r.v.Cursor(r.v.Revision(), pods)
	r.put(pods, pod("a", "x"))
	rev := r.del(pods, "a", "x")
	r.wait(rev)
	b, _ := c.TryNext()
	x := b.Changes[len(b.Changes)-1]
	again := x.Last()
	if x.New != nil || x.Last().Object.GetResourceVersion() != fmt.Sprint(rev) || again != x.Last() {
		t.Errorf("the last state is at %s, want %d", x.Last().Object.GetResourceVersion(), rev)
	}
	if x.Old.Object.GetResourceVersion() == fmt.Sprint(rev) {
		t.Error("the old object was changed")
	}
}

// TestBudget encodes more than is kept, from several goroutines; what is read stays.
func TestBudget(t *testing.T) {
	r := start(t, view.Config{Encodings: 64 << 10})
	value := strings.Repeat("x", 1000)
	var rev int64
	for i := range 300 {
		rev = r.put(maps, cm("a", fmt.Sprint("m", i), value))
	}
	s := r.wait(rev)
	hot := s.Entry(maps, "a", "m0")
	first, _ := hot.JSON(t.Context(), maps.GVK)
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			for e := range s.Entries(maps, "", "") {
				if n == 0 {
					_, _ = e.RawProto(t.Context(), maps.GVK)
				}
				_, _ = e.JSON(t.Context(), maps.GVK)
				if again, _ := hot.JSON(t.Context(), maps.GVK); &again[0] != &first[0] {
					t.Error("what everybody reads was dropped")
				}
			}
		})
	}
	wg.Wait()
	if used := r.v.Stats().Encodings; used > 64<<10 || used < 32<<10 {
		t.Errorf("encodings take %d bytes", used)
	}
}

// TestHistoryTakesEncodings: what falls out of the history takes its encodings along.
func TestHistoryTakesEncodings(t *testing.T) {
	r := start(t, view.Config{Changes: 5})
	for i := range 50 {
		s := r.wait(r.put(maps, cm("a", "x", fmt.Sprint(i))))
		if _, err := s.Entry(maps, "a", "x").JSON(t.Context(), maps.GVK); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.v.Stats().Encodings; n > 7*500 {
		t.Errorf("%d bytes of encodings are kept", n)
	}
}

func TestUnreadEncodingsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, view.Config{})
		r.put(maps, cm("a", "one", ""))
		s := r.wait(r.put(maps, cm("a", "two", "")))
		one, two := s.Entry(maps, "a", "one"), s.Entry(maps, "a", "two")
		before, _ := one.JSON(t.Context(), maps.GVK)
		kept, _ := two.JSON(t.Context(), maps.GVK)
		for range 5 {
			time.Sleep(time.Minute)
			if again, _ := two.JSON(t.Context(), maps.GVK); &again[0] != &kept[0] {
				t.Error("an encoding in use was dropped")
			}
		}
		if after, _ := one.JSON(t.Context(), maps.GVK); &after[0] == &before[0] {
			t.Error("an encoding outlived its use")
		}
		time.Sleep(10 * time.Minute)
		if n := r.v.Stats().Encodings; n != 0 {
			t.Errorf("%d bytes of encodings are kept for nobody", n)
		}
	})
}

func TestOffer(t *testing.T) {
	r := start(t, view.Config{})
	offer := func(p *corev1.Pod, value []byte) { r.v.Offer(pods.Info().Key(p.Namespace, p.Name), value, p) }
	p := pod("a", "x")
	value, _ := codec.Stored(pods, p)
	other, _ := codec.Stored(pods, pod("a", "x", func(p *corev1.Pod) { p.Spec.NodeName = "n" }))
	offer(pod("a", "x"), other) // of a write that fails
	offer(p, value)
	rev := r.write(pods.Info().Key("a", "x"), value)
	x, err := r.v.Written(t.Context(), pods, rev)
	if err != nil || x.New.Object != resource.Object(p) || p.ResourceVersion != fmt.Sprint(rev) || p.Kind != "Pod" {
		t.Fatalf("the view did not take the offer: %v %v", x, err)
	}
	rev = r.write(pods.Info().Key("a", "x"), value)
	if x, _ = r.v.Written(t.Context(), pods, rev); x.New.Object == resource.Object(p) || x.Old.Object != resource.Object(p) {
		t.Error("an offer was taken twice")
	}
	if s := r.v.Stats(); s.Offers != 1 {
		t.Errorf("%d offers wait, want 1", s.Offers)
	}
	for i := range 10_000 {
		offer(pod("a", fmt.Sprint("y", i)), value)
	}
	if s := r.v.Stats(); s.Offers > 4096 {
		t.Errorf("%d offers wait", s.Offers)
	}
}

func TestOffersAreBoundedByBytes(t *testing.T) {
	v := view.NewWith(resource.NewSet(pods), view.Config{Offers: 10_000})
	for range 100 {
		v.Offer("/registry/pods/a/x", make([]byte, 999), pod("a", "x"))
	}
	if s := v.Stats(); s.Offers != 10 {
		t.Errorf("%d offers wait, want 10", s.Offers)
	}
}

func TestWritten(t *testing.T) {
	r := start(t, view.Config{Changes: 10})
	rev := r.put(pods, pod("a", "x"))
	gone := r.del(pods, "a", "x")
	x, err := r.v.Written(t.Context(), pods, gone)
	if err != nil || x.New != nil || x.Old == nil || x.Old.Rev != rev {
		t.Errorf("deletion: %v, %v", x, err)
	}
	if _, err := r.v.Written(t.Context(), maps, gone); !errors.Is(err, view.ErrExpired) {
		t.Errorf("no write of the kind: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.v.Written(ctx, pods, gone+5); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestGuard(t *testing.T) {
	r := start(t, view.Config{Guard: true})
	s := r.wait(r.put(pods, pod("a", "x")))
	if err := view.CheckFrozen(s); err != nil {
		t.Error(err)
	}
	s.Lookup(pods, "a", "x").(*corev1.Pod).Spec.NodeName = "changed"
	if err := view.CheckFrozen(s); err == nil || !strings.Contains(err.Error(), "a/x") {
		t.Errorf("got %v", err)
	}
}
