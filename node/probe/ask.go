package probe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

type answer int

const (
	unknown answer = iota // it could not be asked
	passed
	failed
)

// ask puts the probe's question to the container. text explains an answer that is not a plain yes.
func (p *prober) ask(ctx context.Context, pod *corev1.Pod, ip string) (a answer, text string) {
	return passed, ""
}
