package bootstrap

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// level is one row of the priority levels. Without queues a level rejects what does not fit.
type level struct {
	name                 string
	shares, lend         int32
	queues, hand, length int32
}

var levels = []level{
	{"catch-all", 5, 0, 0, 0, 0},
	{"system", 30, 33, 64, 6, 50},
	{"node-high", 40, 25, 64, 6, 50},
	{"leader-election", 10, 0, 16, 4, 50},
	{"workload-high", 40, 50, 128, 6, 50},
	{"workload-low", 100, 90, 128, 6, 50},
	{"global-default", 20, 50, 128, 6, 50},
}

func flowMeta(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: flowcontrolv1.SchemeGroupVersion.String(), Kind: kind},
		metav1.ObjectMeta{Name: name, Annotations: map[string]string{autoupdate: "true"}}
}

func priorityLevels() []resource.Object {
	exempt := &flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type:   flowcontrolv1.PriorityLevelEnablementExempt,
		Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32), LendablePercent: new(int32)}}}
	exempt.TypeMeta, exempt.ObjectMeta = flowMeta("PriorityLevelConfiguration", "exempt")
	list := []resource.Object{exempt}
	for _, l := range levels {
		p := &flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &l.shares, LendablePercent: &l.lend,
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}}}
		if l.queues > 0 {
			p.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue,
				Queuing: &flowcontrolv1.QueuingConfiguration{Queues: l.queues, HandSize: l.hand, QueueLengthLimit: l.length}}
		}
		p.TypeMeta, p.ObjectMeta = flowMeta("PriorityLevelConfiguration", l.name)
		list = append(list, p)
	}
	return list
}

// flow is one row of the flow schemas. Without rules of its own it matches every request of its subjects.
type flow struct {
	name, level string
	precedence  int32
	by          flowcontrolv1.FlowDistinguisherMethodType
	who         []flowcontrolv1.Subject
	resources   []flowcontrolv1.ResourcePolicyRule
	paths       []flowcontrolv1.NonResourcePolicyRule
}

func flowSchemas() (list []resource.Object) {
	for _, f := range flows() {
		rules := flowcontrolv1.PolicyRulesWithSubjects{Subjects: f.who, ResourceRules: f.resources, NonResourceRules: f.paths}
		if f.resources == nil && f.paths == nil {
			rules.ResourceRules = []flowcontrolv1.ResourcePolicyRule{on("*", "*", true, "*")}
			rules.NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
		}
		s := &flowcontrolv1.FlowSchema{Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: f.precedence,
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: f.level},
			Rules:                      []flowcontrolv1.PolicyRulesWithSubjects{rules}}}
		if f.by != "" {
			s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: f.by}
		}
		s.TypeMeta, s.ObjectMeta = flowMeta("FlowSchema", f.name)
		list = append(list, s)
	}
	return list
}

func flows() []flow {
	user, ns := flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.FlowDistinguisherMethodByNamespaceType
	all := groups(auth.GroupUnauthed, auth.GroupAuthenticated)
	nodes, system := groups(auth.GroupNodes), serviceAccounts("kube-system")
	leases := on("coordination.k8s.io", "leases", false, "*")
	locks := leases
	locks.Verbs = []string{"get", "create", "update"}
	return []flow{
		{name: "exempt", level: "exempt", precedence: 1, who: groups(auth.GroupMasters)},
		{name: "catch-all", level: "catch-all", precedence: 10000, by: user, who: all},
		{name: "system-nodes", level: "system", precedence: 500, by: user, who: nodes},
		{name: "system-node-high", level: "node-high", precedence: 400, by: user, who: nodes,
			resources: []flowcontrolv1.ResourcePolicyRule{on("", "nodes", true, "*", "nodes/status"), leases}},
		{name: "probes", level: "exempt", precedence: 2, who: all, paths: []flowcontrolv1.NonResourcePolicyRule{
			{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/readyz", "/livez"}}}},
		{name: "system-leader-election", level: "leader-election", precedence: 100, by: user,
			who:       append(users("system:kube-controller-manager", "system:kube-scheduler"), system...),
			resources: []flowcontrolv1.ResourcePolicyRule{locks}},
		{name: "kube-controller-manager", level: "workload-high", precedence: 800, by: ns, who: users("system:kube-controller-manager")},
		{name: "kube-scheduler", level: "workload-high", precedence: 800, by: ns, who: users("system:kube-scheduler")},
		{name: "kube-system-service-accounts", level: "workload-high", precedence: 900, by: ns, who: system},
		{name: "service-accounts", level: "workload-low", precedence: 9000, by: user, who: groups(auth.GroupServiceAccount)},
		{name: "global-default", level: "global-default", precedence: 9900, by: user, who: all},
	}
}

func on(group, resource string, cluster bool, verb string, more ...string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{Verbs: []string{verb}, APIGroups: []string{group},
		Resources: append([]string{resource}, more...), Namespaces: []string{"*"}, ClusterScope: cluster}
}

func groups(names ...string) (list []flowcontrolv1.Subject) {
	for _, n := range names {
		list = append(list, flowcontrolv1.Subject{Kind: rbacv1.GroupKind, Group: &flowcontrolv1.GroupSubject{Name: n}})
	}
	return list
}

func users(names ...string) (list []flowcontrolv1.Subject) {
	for _, n := range names {
		list = append(list, flowcontrolv1.Subject{Kind: rbacv1.UserKind, User: &flowcontrolv1.UserSubject{Name: n}})
	}
	return list
}

func serviceAccounts(ns string) []flowcontrolv1.Subject {
	return []flowcontrolv1.Subject{{Kind: rbacv1.ServiceAccountKind,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: ns, Name: "*"}}}
}
