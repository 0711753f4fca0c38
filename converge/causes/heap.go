package causes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/podspec"
	kloop "github.com/kloop-dev/kloop/resource"
)

// A program that was killed for want of memory needs a limit beyond what it was itself allowed to take.

// moreMemory advises to raise the limit of a container that was killed for want of memory.
func moreMemory(l *converge.Look, p *corev1.Pod, name string) string {
	return raiseMemory(l, p, name, "raise the memory limit of container "+name+", or find out why it needs so much")
}

// raiseMemory is advice with the command that does so: to twice what it has, or to what its heap may grow to and a quarter.
func raiseMemory(l *converge.Look, p *corev1.Pod, name, advice string) string {
	c := podspec.ContainerNamed(&p.Spec, name)
	if c == nil || c.Resources.Limits.Memory().IsZero() {
		return advice
	}
	more := c.Resources.Limits.Memory().DeepCopy()
	more.Add(*c.Resources.Limits.Memory())
	if heap, words := heapOf(c); heap > 0 && heap+heap/4 > more.Value() {
		const step = 64 << 20
		more = *resource.NewQuantity((heap+heap/4+step-1)/step*step, resource.BinarySI)
		advice = "raise the memory limit of container " + name + ", whose heap may grow to more (" + words + "), or lower that"
	}
	return resources(l, advice, name, "", "memory="+more.String())
}

// heaped finds how far a heap may grow, in the settings of runtimes.
var heaped = pattern.New(`-Xmx(\d+)([kKmMgG])\b|--max[-_]old[-_]space[-_]size=(\d+)\b`)

// heapOf is the size in bytes that a container's settings let its heap have, and the words that do so; 0: none says.
func heapOf(c *corev1.Container) (size int64, words string) {
	said := slices.Concat(c.Command, c.Args)
	for i := range c.Env {
		said = append(said, c.Env[i].Value)
	}
	m := heaped.FindStringSubmatch(strings.Join(said, " "))
	if m == nil {
		return 0, ""
	}
	unit := strings.ToUpper(m[2])
	if unit == "" {
		unit = "M"
	}
	q, err := kloop.ParseQuantity(m[1] + m[3] + unit + "i")
	if err != nil {
		return 0, ""
	}
	return q.Value(), m[0]
}
