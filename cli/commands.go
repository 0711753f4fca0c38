package cli

import (
	"context"
	"strings"
)

// A command is one word after kloop. Help, completion and manual pages follow from the table of them.
type command struct {
	name, args, about string
	run               func(ctx context.Context, std stdio, args []string) error
	example           string // one line that can be typed as it is; a # starts what it does
	says              speech
}

// A group is a section of the help.
type group struct {
	title string
	list  []command
}

// groups is the table of commands, in the order in which help lists them.
func groups() []group {
	return []group{
		{"Clusters by name", []command{
			{"create", "[NAME]", "make a cluster of one or more nodes on this machine", create,
				"kloop create dev --nodes 3 --ports 8080:30080", acts},
			{"list", "", "list the clusters of this machine", list, "kloop list", tells},
			{"status", "[NAME]", "say which cluster commands speak to, why that one, and how it is", status,
				"kloop status", tells},
			{"stop", "[NAME]", "end a cluster's processes and containers; its data stays", stopCmd,
				"kloop stop dev", acts},
			{"start", "[NAME]", "start a cluster that was stopped", start, "kloop start dev", acts},
			{"delete", "NAME… | --all", "remove a cluster with all that belongs to it", deleteCmd,
				"kloop delete dev", acts},
		}},
		{"The cluster of this machine", []command{
			{"up", "[flags]", "run a whole cluster: server, loops, scheduler and a node", up,
				"kloop up --store memory --sim-nodes 3 --listen 127.0.0.1:7443 --kubeconfig /tmp/k", shows},
			{"install", "[cluster | server | node]", "run kloop as a service of systemd, or take this version into use", install,
				"kloop install   # sudo; an upgrade too: pods go on running", acts},
			{"uninstall", "[cluster | server | node]", "take the service away; --data removes its data too", uninstall,
				"kloop uninstall", acts},
			{"reset", "[--data-dir DIR]", "remove all that kloop has on this machine: containers, networks, data", reset,
				"kloop reset --yes", acts},
			{"kubectl", "ARGS…", "run the kubectl that stands beside kloop", kubectl,
				"kloop kubectl get pods -A", shows},
			{"kubeconfig", "--user U | --node N", "print a kubeconfig with a new client certificate", kubeconfig,
				"kloop kubeconfig --user jane --group developers", shows},
			{"image", "load FILE | list | rm IMAGE | pack", "load images into the nodes, list, remove and make them", image,
				"kloop image load app.tar.gz   # or a name that docker or podman knows, or - for the standard input", acts.telling("list")},
			{"config", "show [--config FILE]", "show what is set, and where each came from", configCmd,
				"kloop config show --config kloop.yaml", shows.telling("show")},
		}},
		explaining(),
		parts(),
		{"Development, and kloop itself", []command{
			{"envtest", "DIR | use [VERSION]", "make a directory for KUBEBUILDER_ASSETS", envtest,
				"kloop envtest use --bin-dir bin -p path", acts},
			{"completion", "bash | zsh | fish | powershell", "print the completion of a shell", completion,
				"source <(kloop completion bash)", shows},
			{"man", "DIR", "write the manual pages to a directory", man,
				"kloop man /usr/local/share/man/man1", acts},
			{"version", "", "print the version", printVersion, "kloop version -o json", tells},
			{"help", "[COMMAND]", "list the commands, or tell all about one", help, "kloop help up", shows},
		}},
	}
}

// explaining are the commands that explain a cluster, whoever made it.
func explaining() group {
	return group{"Understanding it", []command{
		{"why", "[KIND/NAME]", "explain why an object, or anything, is not what it should be", why,
			"kloop why deployment/web", tells},
		{"gaps", "[-A | -n NS]", "list what is not what it should be, in a sentence each", gaps,
			"kloop gaps -A", tells},
		{"trace", "KIND/NAME", "tell who changed an object, because of what, and what followed", trace,
			"kloop trace deployment/web --follow", tells},
		{"diff", "[KIND/NAME]", "tell what changed, field by field, by whom and because of what", diff,
			"kloop diff --since 10m", tells},
		{"undo", "KIND/NAME | --since TIME", "take back what people changed: shown and tried first, then done", undo,
			"kloop undo deployment/web", acts.telling("")},
		{"plan", planWords, "tell what would happen, in a fork of the cluster and in simulated time", planCmd,
			"kloop plan drain node-7", tells},
		{"ui", "[--port N]", "show the cluster in a browser, live: loops, gaps, cascades, nodes, plans", ui,
			"kloop ui", shows},
		{"watch", "[-n NS]", "show the whole cluster on this terminal, live: gaps, nodes, rollouts, events", watch,
			"kloop watch   # q ends it, / filters", shows},
		{"loops", "", "show how the control loops are doing", loops, "kloop loops", tells},
		{"follow", "[KIND/]NAME", "show the cascade of a workload as it happens", follow,
			"kloop follow statefulset/db -n shop", tells},
	}}
}

// parts are the commands that run and keep the parts of a cluster one by one.
func parts() group {
	return group{"Parts of a cluster, and several machines", []command{
		{"server", "[flags]", "run the API server alone", serve, "kloop server --listen :6443", shows},
		{"controllers", "--kubeconfig FILE", "run the loops and the scheduler against a server", controllersCmd,
			"kloop controllers --kubeconfig /var/lib/kloop/admin.kubeconfig", shows},
		{"lookout", "[--kubeconfig FILE]", "explain another cluster to its users, as an API server that extends it", lookout,
			"kloop lookout --kubeconfig ~/.kube/config --listen :6443", shows},
		{"node", "--kubeconfig FILE", "run a node agent", nodeCmd,
			"kloop node --server https://10.0.0.1:6443 --token T --ca-hash sha256:H", shows},
		{"token", "[--data-dir DIR]", "print what lets another server, or a node, join", token,
			"kloop token --node", acts.telling("")},
		{"member", "list | remove NAME", "show or change who keeps the store", member,
			"kloop member list", acts.telling("list")},
		{"certs", "list | renew | rotate | finish", "list certificates with their ages, issue them anew, exchange the cluster's keys", certs,
			"kloop certs list", acts.telling("list")},
		{"backup", "FILE", "save the store of a server", backup, "kloop backup --keys kloop.tar", acts},
		{"restore", "FILE", "make a data directory from a backup", restore,
			"kloop restore --data-dir /var/lib/kloop kloop.tar", acts},
	}}
}

// commands are those of all groups.
func commands() (list []command) {
	for _, g := range groups() {
		list = append(list, g.list...)
	}
	return list
}

// find is the command of a name.
func find(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// subs are the words that follow a command's name, if it has such: load and pack of "load FILE | pack", or of "[load | pack]".
func (c command) subs() (list []string) {
	for alternative := range strings.SplitSeq(c.args, "|") {
		word, _, _ := strings.Cut(strings.Trim(alternative, "[] "), " ")
		if word != "" && word != "flags" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" {
			list = append(list, word)
		}
	}
	return list
}
