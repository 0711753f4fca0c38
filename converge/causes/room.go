package causes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	kloop "github.com/kloop-dev/kloop/resource"
)

// A room is the node on which most of a resource is free for some pods.
type room struct {
	node *corev1.Node
	free resource.Quantity
}

// rooms are those of workloads, by the UID of who made the pods, and of resources: such pods wait by the thousand.
type rooms map[[2]string]room

// roomFor is the roomiest node for a pod, which is worked out once for all pods of a maker.
func roomFor(w *converge.World, p *corev1.Pod, name corev1.ResourceName) (*corev1.Node, resource.Quantity) {
	by := metav1.GetControllerOfNoCopy(p)
	if by == nil || by.Kind == "DaemonSet" {
		return roomiest(w, p, name)
	}
	known, key := converge.Kept[rooms](w), [2]string{string(by.UID), string(name)}
	r, is := (*known)[key]
	if !is {
		r.node, r.free = roomiest(w, p, name)
		if *known == nil {
			*known = rooms{}
		}
		(*known)[key] = r
	}
	return r.node, r.free.DeepCopy()
}

// roomiest is the node on which most of a resource is free, of those that a pod could have; nil: nobody here knows.
func roomiest(w *converge.World, p *corev1.Pod, name corev1.ResourceName) (best *corev1.Node, free resource.Quantity) {
	if !w.Sees(kinds.Pods, "") || name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		return nil, free
	}
	return freest(w, p, name, kloop.List(w.Read, kinds.Nodes, ""))
}

// lower is advice with the command by which the container that asks for most of a resource asks for what is left on the roomiest node.
func lower(l *converge.Look, p *corev1.Pod, name corev1.ResourceName, advice string, free resource.Quantity) string {
	which, free := largestPart(p, name, free)
	if which == "" {
		return atMaker(l, advice)
	}
	amount, limits := string(name)+"="+whole(name, free), ""
	if c := podspec.ContainerNamed(&p.Spec, which); c != nil {
		if limit, is := c.Resources.Limits[name]; is && limit.Cmp(c.Resources.Requests[name]) == 0 { // they stay the same
			limits = amount
		}
	}
	return resources(l, advice, which, amount, limits)
}

// largestPart is the container of a pod that asks for most of a resource, and what is left for it of an amount; "": that is nothing.
func largestPart(p *corev1.Pod, name corev1.ResourceName, of resource.Quantity) (which string, left resource.Quantity) {
	most := resource.Quantity{}
	for i := range p.Spec.Containers {
		if q := p.Spec.Containers[i].Resources.Requests[name]; q.Cmp(most) > 0 {
			most, which = q, p.Spec.Containers[i].Name
		}
	}
	others := asksFor(p, name)
	others.Sub(most)
	if of.Sub(others); of.Sign() <= 0 || len(p.Spec.InitContainers) > 0 {
		return "", of
	}
	return which, of
}

// whole words an amount as people do: in Mi, or in thousandths of a processor.
func whole(name corev1.ResourceName, q resource.Quantity) string {
	if name == corev1.ResourceCPU {
		return resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI).String()
	}
	if mi := q.Value() &^ (1<<20 - 1); mi > 0 {
		return resource.NewQuantity(mi, resource.BinarySI).String()
	}
	return q.String()
}

// others advises to have a pod ask for a label that nodes have, where it asks for one that no node has: for the value that they have, or
// for the label that has that value.
func others(l *converge.Look, p *corev1.Pod) (advice []string) {
	if want := p.Spec.NodeSelector[corev1.LabelHostname]; want != "" && !slices.Contains(nodeLabels(l.World, corev1.LabelHostname), want) &&
		l.Sees(kinds.Nodes, "") {
		return []string{retemplate(l, "leave that node out, if its pods may run on any", `{"nodeSelector":{"`+corev1.LabelHostname+`":null}}`)}
	}
	if other := otherValues(l, p); len(other) > 0 {
		return other
	}
	key, other, value := nearLabel(l.World, p)
	if other == "" || value == "" {
		return nil
	}
	spec := `{"nodeSelector":{"` + key + `":"` + value + `"}}`
	if other != key {
		spec = `{"nodeSelector":{"` + key + `":null,"` + other + `":"` + value + `"}}`
	}
	return []string{retemplate(l, "have it ask for "+other+"="+value+", if that is meant", spec)}
}

// relabelling advises to give the label that a pod asks for to the one node that has another value of it.
func relabelling(w *converge.World, p *corev1.Pod) []string {
	key, _, _ := nearLabel(w, p)
	if p.Spec.NodeSelector[key] == "" || key == corev1.LabelHostname {
		return nil
	}
	generic := "correct it, or label nodes: kubectl get nodes --show-labels"
	if nodes := kloop.List(w.Read, kinds.Nodes, ""); len(nodes) == 1 && !strings.Contains(key, "kubernetes.io/") {
		return []string{"or label the node so: kubectl label node " + nodes[0].Name + " " + key + "=" + p.Spec.NodeSelector[key] + " --overwrite"}
	}
	return []string{generic}
}

// nearLabel finds a label of nodes that may be meant by one of a pod's selector that no node has; "": none is like it.
func nearLabel(w *converge.World, p *corev1.Pod) (key, other, value string) {
	if !w.Sees(kinds.Nodes, "") {
		return "", "", ""
	}
	for _, key = range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		want, has := p.Spec.NodeSelector[key], nodeLabels(w, key)
		if slices.Contains(has, want) || key == corev1.LabelOSStable || key == corev1.LabelArchStable || key == corev1.LabelHostname {
			continue
		}
		if len(has) == 1 {
			return key, key, has[0]
		}
		if len(has) > 0 {
			return key, key, valueLike(w, key, want, has)
		}
		return key, keyLike(w, key, want), want
	}
	return "", "", ""
}

// likeValues are values of labels that are like others, by the key and those.
type likeValues map[[2]string]string

// valueLike is the value of those that nodes have of a label that is most like another. It is sought once for all pods.
func valueLike(w *converge.World, key, want string, has []string) string {
	known, at := converge.Kept[likeValues](w), [2]string{key, want}
	like, is := (*known)[at]
	if !is {
		if like = converge.Likest(want, slices.Clone(has)); *known == nil {
			*known = likeValues{}
		}
		(*known)[at] = like
	}
	return like
}

// likeKeys are keys of labels that are like others, by those and a value.
type likeKeys map[[2]string]string

// keyLike is the key of a label that nodes have with a value, and that is like another: as disktype of disk. It is sought once for
// all pods.
func keyLike(w *converge.World, key, value string) (like string) {
	known, at := converge.Kept[likeKeys](w), [2]string{key, value}
	if like, is := (*known)[at]; is {
		return like
	}
	if *known == nil {
		*known = likeKeys{}
	}
	defer func() { (*known)[at] = like }()
	var keys []string
	for _, n := range kloop.List(w.Read, kinds.Nodes, "") {
		for has, is := range n.Labels {
			if is == value && !slices.Contains(keys, has) {
				keys = append(keys, has)
			}
		}
	}
	if slices.Sort(keys); len(keys) == 1 && (strings.HasSuffix(keys[0], "/"+key) || strings.HasSuffix(key, "/"+keys[0])) {
		return keys[0]
	}
	return converge.Likest(key, keys)
}

// Reselect tells which label a pod template may mean by one that no node has, and the patch of its spec; "": none is like it.
func Reselect(w *converge.World, t *corev1.PodSpec) (says, patch string) {
	key, other, value := nearLabel(w, &corev1.Pod{Spec: *t})
	if other == "" || value == "" {
		return "", ""
	}
	null := ""
	if other != key {
		null = `"` + key + `":null,`
	}
	return "; there are nodes with " + other + "=" + value,
		`{"spec":{"template":{"spec":{"nodeSelector":{` + null + `"` + other + `":"` + value + `"}}}}}`
}
