package converge

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// pods are what is left to say of a pod that has a node.
func pods() []Situation {
	of := []resource.Kind{kinds.Pods}
	return []Situation{
		{"SandboxFails", of, sandboxFails},
		{"AgentRefuses", of, agentRefuses},
		{"NotStarted", of, notStarted},
		{"NotReady", of, notReady},
	}
}

func sandboxFails(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	e := l.warning(p.UID, "FailedCreatePodSandBox")
	if p.Status.Phase != corev1.PodPending || e == nil {
		return nil
	}
	return &Finding{Says: "can't get its sandbox: " + e.Message, Owner: agentOf(p), State: BackingOff, Error: eventFailure(e), Next: does(agentOf(p), "tries again"),
		Advice: []string{"look at the container runtime and the network plugins on " + p.Spec.NodeName}}
}

// agentRefuses: the agent of a node in this process failed at the pod in its last look.
func agentRefuses(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	r, ok := l.record("node", l.kind, p)
	if !ok || r.Fails < 2 || p.Spec.NodeName == "" {
		return nil
	}
	return &Finding{Says: "can't be run: " + lastLine(r.LastErr), Owner: agentOf(p), State: BackingOff, Error: failureOf(r), Next: at(r.Next, agentOf(p), "tries again"),
		Advice: []string{"look at the node agent's log on " + p.Spec.NodeName}}
}

// notStarted: the agent has the pod and tells nothing that stands in the way.
func notStarted(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending && p.Status.Phase != "" {
		return nil
	}
	f := &Finding{Says: "was given to node " + p.Spec.NodeName + ", which has not started it", Owner: agentOf(p), State: Progressing, Next: does(agentOf(p), "starts the containers")}
	if l.Now.Sub(l.health.Since) > slowStart {
		f.State, f.Advice = Waiting, []string{"look whether the node agent on " + p.Spec.NodeName + " runs, and at its log"}
	}
	return f
}

// slowStart is after how long a pod that has not started is no longer one that merely takes its time.
const slowStart = 30e9

func notReady(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
		return nil
	}
	f := &Finding{Says: "runs and is not ready", Owner: agentOf(p), State: Waiting, Next: does(agentOf(p), "says when it is ready")}
	if c := podCondition(p, corev1.PodReady); c != nil && c.Message != "" {
		f.Says += ": " + c.Message
	}
	return f
}
