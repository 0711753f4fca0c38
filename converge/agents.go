package converge

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
)

// agentLoop is the loop of a node's agent.
const agentLoop = "node"

// What bounds what agents may tell.
const (
	maxAgents = 1024
	agentRate = 20 // reports in a second, of all agents together
)

// TakeAgent takes in what the agent of a node, in a process of its own, reports of its loop, and answers when the next report
// is wanted. What it says counts for pods of its node alone.
func (p *Processes) TakeAgent(node string, r *convergence.Report) *convergence.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if _, known := p.agents[node]; !known && len(p.agents) >= maxAgents {
		maps.DeleteFunc(p.agents, func(_ string, r *reported) bool { return r.until.Before(now) })
		if len(p.agents) >= maxAgents {
			return &convergence.Report{Process: p.Self, Again: maxAgents / agentRate}
		}
	}
	if p.agents == nil {
		p.agents = map[string]*reported{}
	}
	again := max(p.again(now), int32(len(p.agents)/agentRate))
	until := now.Add(staleReports * time.Duration(max(again, oftenElse)) * time.Second)
	p.agents[node] = &reported{Report: r, until: until, records: map[string]map[loop.Key]loop.Record{agentLoop: p.recordsOf(r)[agentLoop]}}
	return &convergence.Report{Process: p.Self, Again: again}
}

// ofAgent returns the report of a pod's agent about the pod. An agent that reports tells only of pods that are not at rest.
func (p *Processes) ofAgent(key loop.Key) (loop.Record, bool) {
	if p.Read == nil || key.Kind != core.Pods {
		return loop.Record{}, false
	}
	pod, ok := p.Read().Lookup(key.Kind, key.Namespace, key.Name).(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return loop.Record{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = p.now()
	r := p.agents[pod.Spec.NodeName]
	if r == nil || r.until.Before(p.wanted) {
		return loop.Record{}, false
	}
	if rec, ok := r.records[agentLoop][key]; ok {
		return rec, true
	}
	return loop.Record{Key: key, State: "resting"}, len(r.Records) < maxReported
}

// agentsNow are the reports of agents that still count, by node.
func (p *Processes) agentsNow() map[string]*reported {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	maps.DeleteFunc(p.agents, func(_ string, r *reported) bool { return r.until.Before(now) })
	return maps.Clone(p.agents)
}

// agentRows are the loops of agents elsewhere, each named after its node.
func (p *Processes) agentRows() (list []*convergence.Loop) {
	for node, r := range p.agentsNow() {
		i := slices.IndexFunc(r.Loops, func(l convergence.Loop) bool { return l.Name == agentLoop })
		if i < 0 {
			continue
		}
		row := r.Loops[i].DeepCopyObject().(*convergence.Loop)
		row.Name, row.Leader, row.Lease, row.Replicas = agentLoop+"."+node, node, "", 1
		list = append(list, row)
	}
	return list
}

// Relay adds what agents told this process to what it tells others: an agent speaks to one server.
func (p *Processes) Relay(to *convergence.Report) {
	for _, r := range p.agentsNow() {
		for i := range r.Records {
			if r.Records[i].Loop == agentLoop && len(to.Records) < maxReported {
				to.Records = append(to.Records, r.Records[i])
			}
		}
	}
}
