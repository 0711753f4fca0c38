package scheduler

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func typeName(x any) string { return fmt.Sprintf("%T", x) }

// pod makes a pod from the YAML of its spec, without containers; asks are like "cpu=1,memory=1Gi".
func pod(name, labels, asks, spec string) *corev1.Pod {
	p := &corev1.Pod{}
	text := "metadata: {name: " + name + ", namespace: default, labels: {" + labels + "}}\nspec:\n  schedulerName: default-scheduler\n" +
		"  containers: [{name: c, image: i, resources: {requests: {" + strings.ReplaceAll(asks, "=", ": ") + "}}}]\n"
	for _, line := range strings.Split(spec, "\n") {
		text += "  " + line + "\n"
	}
	must(yaml.UnmarshalStrict([]byte(text), p))
	p.UID = types.UID("uid-" + name)
	return p
}

// node makes a node with 4 cpus, 8Gi and room for 10 pods.
func node(name, labels, rest string) *corev1.Node {
	n := &corev1.Node{}
	must(yaml.UnmarshalStrict([]byte("metadata: {name: "+name+", labels: {kubernetes.io/hostname: "+name+", "+labels+"}}\n"+
		"status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}, capacity: {cpu: 4, memory: 8Gi, pods: 10}}\n"+rest), n))
	return n
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// site makes a state of nodes.
func site(nodes ...*corev1.Node) *state {
	st := newState()
	for _, n := range nodes {
		st.setNode(n.Name, n)
	}
	return st
}

// add puts a pod on a node.
func (st *state) add(p *corev1.Pod, node string) *task {
	t := st.task(p)
	st.addPod(t, st.indexOf(node))
	return t
}

func (st *state) task(p *corev1.Pod) *task {
	t := &task{pod: p, class: st.classOf(p), node: -1, nominee: -1}
	t.need = t.class.need
	st.tasks[keyOf(p)] = t
	return t
}

// where decides a pod: the node's name, or the message.
func (st *state) where(p *corev1.Pod) string {
	i, f := st.decide(st.task(p))
	if f != nil {
		return f.message()
	}
	return st.nodes[i].name
}
