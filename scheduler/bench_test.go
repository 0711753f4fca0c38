package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
)

// BenchmarkDecide measures decisions alone: pods of one template on 5,000 nodes in 10 zones, each decided, then
// assumed where it goes. Every decision sees the ones before it.
func BenchmarkDecide(b *testing.B) {
	for _, bench := range []struct{ name, asks, spec string }{
		{"named", "cpu=1m,memory=1Mi", ""}, // every pod has a label of its own, as in a StatefulSet
		{"plain", "cpu=1m,memory=1Mi", ""},
		{"preferred", "cpu=1m,memory=1Mi", `affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
    {weight: 5, preference: {matchExpressions: [{key: zone, operator: In, values: [z1, z2]}]}}]}}`},
		{"spread", "cpu=1m,memory=1Mi", `topologySpreadConstraints: [
    {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a}}},
    {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: a}}}]`},
		{"apart", "cpu=1m,memory=1Mi", `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
    {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}}]}}`},
		{"spread+apart", "cpu=1m,memory=1Mi", `topologySpreadConstraints: [
    {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a}}},
    {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: a}}}]
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
    {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}}]}}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			st := newState()
			for i := range 5000 {
				n := node(fmt.Sprintf("n%d", i), fmt.Sprintf("topology.kubernetes.io/zone: z%d, zone: z%d", i%10, i%10), "")
				st.setNode(n.Name, n)
			}
			sample := pod("p", "app: a", bench.asks, bench.spec)
			list := make([]*task, 0, 4500)
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				if len(list) == cap(list) { // full: empty the nodes
					b.StopTimer()
					for _, t := range list {
						st.removePod(t)
						t.class.refs--
					}
					list = list[:0]
					b.StartTimer()
				}
				p := *sample
				p.UID = types.UID(fmt.Sprint(n))
				if bench.name == "named" {
					p.Labels = map[string]string{"app": "a", "pod": string(p.UID)}
				}
				t := &task{pod: &p, class: st.classOf(&p), node: -1, nominee: -1}
				t.need = t.class.need
				i, f := st.decide(t)
				if f != nil {
					b.Fatal(f.message())
				}
				st.addPod(t, i)
				st.nextStart = i + 1
				list = append(list, t)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}

// BenchmarkBind measures all of it: pods wait in a server on a store in memory, then a scheduler starts and
// binds them all.
func BenchmarkBind(b *testing.B) {
	const nodes, pods = 1000, 5000
	for range b.N {
		b.StopTimer()
		w := start(b, false)
		for i := range nodes {
			w.create(node(fmt.Sprintf("n%d", i), "", ""))
		}
		for i := range pods {
			w.create(pod(fmt.Sprintf("p%d", i), "app: a", "cpu=10m", ""))
		}
		feed := w.Feed(kinds.Pods)
		b.StartTimer()
		w.schedule(b.Context())
		for left := map[string]bool{}; len(left) < pods; {
			batch, err := feed.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, c := range batch.Changes {
				if bound(c.New.(*corev1.Pod)) {
					left[c.New.GetName()] = true
				}
			}
		}
	}
	b.ReportMetric(float64(pods*b.N)/b.Elapsed().Seconds(), "pods/s")
}
