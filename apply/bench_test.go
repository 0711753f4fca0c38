package apply

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/apply/schemafile"
	"github.com/kloop-dev/kloop/resource"
)

const podJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-5d4f8c7b9-x2x4z","namespace":"default",
"generateName":"web-5d4f8c7b9-",
"labels":{"app":"web","pod-template-hash":"5d4f8c7b9"},"annotations":{"a":"b"},
  "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",
"name":"web-5d4f8c7b9","uid":"8f0b6f0e-7f7a-4d3a-8b57-0a1b2c3d4e5f","controller":true,"blockOwnerDeletion":true}]},
"spec":{"containers":[{"name":"web","image":"nginx:1.27","ports":[{"name":"http","containerPort":80,"protocol":"TCP"}],
"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],
"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"memory":"128Mi"}},"volumeMounts":[{"name":"tmp","mountPath":"/tmp"}],
"livenessProbe":{"httpGet":{"path":"/","port":80,"scheme":"HTTP"},
  "timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
"volumes":[{"name":"tmp","emptyDir":{}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
"securityContext":{},"schedulerName":"default-scheduler","enableServiceLinks":true}}`

const podStatusJSON = `{"phase":"Running","hostIP":"10.0.0.1","podIP":"10.1.0.7","podIPs":[{"ip":"10.1.0.7"}],"qosClass":"Burstable",
"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},
{"type":"ContainersReady","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"PodScheduled","status":"True",
"lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],
"containerStatuses":[{"name":"web","ready":true,"restartCount":0,"image":"nginx:1.27","imageID":"sha","containerID":"c",
"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"lastState":{},"started":true}]}`

const deploymentJSON = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"}},"spec":{"replicas":3,
"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
  "spec":{"containers":[{"name":"web","image":"nginx:1.27",
"ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],
"resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]}}}}`

func decode[T resource.Object](b *testing.B, doc string, obj T) T {
	if err := json.Unmarshal([]byte(doc), obj); err != nil {
		b.Fatal(err)
	}
	return obj
}

// A load is an update to measure.
type load struct {
	name     string
	w        Write
	old, obj resource.Object
}

func loads(b *testing.B, tr *Tracker) []load {
	now := time.Unix(1767225600, 0)
	cm := decode(b, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","l":"w"}}`, &corev1.ConfigMap{})
	pod := decode(b, podJSON, &corev1.Pod{})
	w := Write{Kind: pods, GVK: pods.GVK, Manager: "kube-controller-manager", Now: now}
	bound := resource.Clone(pod)
	if err := tr.Update(w, nil, bound); err != nil {
		b.Fatal(err)
	}
	bound.UID = "u"
	node := Write{Kind: pods, GVK: pods.GVK, Manager: "kubelet", Sub: "status", Now: now}
	running := resource.Clone(bound)
	if err := json.Unmarshal([]byte(podStatusJSON), &running.Status); err != nil {
		b.Fatal(err)
	}
	if err := tr.Update(node, bound, running); err != nil {
		b.Fatal(err)
	}
	restarted := resource.Clone(running)
	restarted.Status.ContainerStatuses[0].RestartCount, restarted.Status.Phase = 1, "Failed"
	widget, grown := customLoad(b, tr, now)
	fresh := resource.Clone(widget.obj)
	fresh.SetManagedFields(nil)
	fresh.SetUID("")
	return []load{
		{"Custom/create", Write{Kind: widget.kind, GVK: widget.kind.info.GVK, Manager: "m", Now: now}, nil, fresh},
		{"Custom/status", Write{Kind: widget.kind, GVK: widget.kind.info.GVK, Manager: "m", Sub: "status", Now: now}, widget.obj, grown},
		{"ConfigMap/create", Write{Kind: configMaps, GVK: configMaps.GVK, Manager: "m", Now: now}, nil, cm},
		{"Pod/create", w, nil, pod},
		{"Pod/first-status", node, bound, resource.Clone(running)},
		{"Pod/status", node, running, restarted},
		{"Pod/unchanged", node, running, resource.Clone(running)},
	}
}

type customObject struct {
	kind *customKind
	obj  resource.Object
}

func customLoad(b *testing.B, tr *Tracker, now time.Time) (customObject, resource.Object) {
	k := widgets()
	s := &spec.Schema{}
	if err := s.UnmarshalJSON([]byte(widgetSchema)); err != nil {
		b.Fatal(err)
	}
	if err := tr.SetSchema(k.info.GVK, s); err != nil {
		b.Fatal(err)
	}
	obj := decode(b, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","labels":{"a":"b"}},"spec":{"n":1,"s":"x",
		"set":["a","b"],"rows":[{"name":"a","v":1},{"name":"b","v":2}],"map":{"a":"1","b":"2"}}}`, &unstructured.Unstructured{})
	if err := tr.Update(Write{Kind: k, GVK: k.info.GVK, Manager: "kubectl", Now: now}, nil, obj); err != nil {
		b.Fatal(err)
	}
	obj.SetUID("u")
	grown := obj.DeepCopy()
	grown.Object["status"] = map[string]any{"n": int64(1), "s": "ready"}
	return customObject{k, obj}, grown
}

func BenchmarkUpdate(b *testing.B) {
	tr := NewTracker()
	for _, l := range loads(b, tr) {
		given := l.obj.GetManagedFields()
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.obj.SetManagedFields(given)
				if err := tr.Update(l.w, l.old, l.obj); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(l.name+"/library", func(b *testing.B) {
			b.ReportAllocs()
			m, err := tr.smdFor(&l.w)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				l.obj.SetManagedFields(given)
				if err = m.update(&l.w, l.old, l.obj); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkApplyUnchanged(b *testing.B) {
	tr := NewTracker()
	obj, err := readAndApply(tr, hand, nil, deploymentJSON, false)
	if err != nil {
		b.Fatal(err)
	}
	d := obj.(*appsv1.Deployment)
	d.UID, d.CreationTimestamp = "u", metav1.Unix(1, 0)
	benchApply(b, tr, d, deploymentJSON)
}

func BenchmarkApplyImage(b *testing.B) {
	tr := NewTracker()
	old, err := readAndApply(tr, hand, nil, deploymentJSON, false)
	if err != nil {
		b.Fatal(err)
	}
	benchApply(b, tr, old, strings.Replace(deploymentJSON, "nginx:1.27", "nginx:1.28", 1))
}

func BenchmarkApplyCreate(b *testing.B) {
	benchApply(b, NewTracker(), nil, deploymentJSON)
}

// hand is who applies.
var hand = Write{Kind: deploys, GVK: deploys.GVK, Manager: "m", Now: time.Unix(1767225600, 0)}

// benchApply compares the tracker with the library at one apply.
func benchApply(b *testing.B, tr *Tracker, old resource.Object, patch string) {
	b.Run("Deployment", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := readAndApply(tr, hand, old, patch, false); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Deployment/library", func(b *testing.B) {
		b.ReportAllocs()
		m, err := tr.smdFor(&hand)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			c, _ := Read([]byte(patch))
			if _, err = m.apply(&hand, old, c.doc, false); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWarm(b *testing.B) {
	for b.Loop() {
		if _, err := schemafile.Decode(schemaFile); err != nil {
			b.Fatal(err)
		}
	}
}
