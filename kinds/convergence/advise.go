package convergence

import (
	"encoding/json"
	"strings"

	"github.com/kloop-dev/kloop/internal/pattern"
)

// command is all of a piece of advice, or what stands behind its words and a colon. One that makes an object begins with the object.
var command = pattern.New(`(?:^|: )((?:kubectl|kloop) |echo '\{)`)

// Advise sets what a person can do, and the commands in it. What stands in an object, and what its controller says of it, is up to
// anybody who may write objects of its kind, and commands are pasted: one that a shell would read as anything but the words that
// it shows is left out, and so is one that leads kubectl elsewhere. Advice has one command: of several, some are not ours.
func (g *Gap) Advise(list []string) {
	g.Advice, g.Commands = nil, nil
	dropped := false
	for _, a := range list {
		at := command.FindAllStringSubmatchIndex(a, -1)
		if len(at) == 0 {
			g.Advice = append(g.Advice, a)
			continue
		}
		begin := at[0][2]
		dropped = true
		if says := a[begin:]; len(at) == 1 && safe(says) {
			g.Advice, g.Commands = append(g.Advice, a), append(g.Commands, says)
		} else if a = strings.TrimSuffix(a[:begin], ": "); a != "" {
			g.Advice = append(g.Advice, a)
		}
	}
	switch {
	case len(g.Commands) > 0:
		g.NoCommand = ""
	case dropped && g.NoCommand == "":
		g.NoCommand = "what stands in the object would lead a shell astray: look at it yourself"
	}
}

// HasCommand says that a piece of advice has a command.
func HasCommand(advice string) bool { return command.MatchString(advice) }

var (
	// active finds what a shell acts on outside of quotes.
	active = pattern.New("[^A-Za-z0-9 ./:=_,@%+^~-]")
	// elsewhere finds options by which kubectl asks another server, or as somebody else, reads files of others, or changes all there is.
	elsewhere = pattern.New(` (?:-s|--(?:server|kubeconfig|token|username|password|as|as-[a-z]+|insecure-skip-tls-verify|` +
		`certificate-authority|client-[a-z]+|tls-server-name|cluster|context|user|all))(?:[ =]|$)| (?:-f|--filename)[ =]?[^ ]*[/:]`)
	// rights asks what somebody else may do, which is no harm.
	rights = pattern.New(`^kubectl auth can-i --list --as=[\w.:@-]+(?: -n [\w.-]+)?$`)
	// several are the commands that are more than one. QUOTED stands for what is in quotes.
	several = pattern.New(strings.NewReplacer("NAME", `[\w.:@-]+`, "LIST", `[\w.:@,/*-]+`).Replace(`^(?:` +
		`kubectl delete pvc NAME -n NAME --wait=false && kubectl delete pod NAME -n NAME|` +
		`kubectl create (?:cluster)?role NAME(?: --[a-z-]+=LIST)+(?: -n NAME)? && ` +
		`kubectl create (?:cluster)?rolebinding NAME(?: --(?:clusterrole|role|serviceaccount|user|group)=NAME)+(?: -n NAME)?|` +
		`echo QUOTED \| kubectl apply -f -|` +
		`kubectl patch cronjob NAME -n NAME -p QUOTED && kubectl delete job NAME -n NAME|` +
		`kubectl get NAME NAME -n NAME -o yaml \| sed QUOTED \| kubectl apply -f -|` +
		`kubectl get NAME NAME -n NAME -o yaml \| sed QUOTED \| kubectl replace --force -f -|` +
		`kubectl patch NAME NAME(?: -n NAME)? --dry-run=client -o yaml --type=NAME -p QUOTED(?: \| sed QUOTED)? \| ` +
		`kubectl replace --force -f -|` +
		`kubectl create secret [a-z-]+ NAME -n NAME(?: --docker-[a-z]+=[\w.:/@-]+)+ --dry-run=client -o yaml \| kubectl replace --force -f -|` +
		`kubectl get namespace NAME -o json \| sed QUOTED \| kubectl replace --raw /api/v1/namespaces/NAME/finalize -f -)$`))
	// edit is a script of sed's that does no more than to put one text in the place of another, or to leave lines out.
	edit = pattern.New(`^/[\w:-]+/d$|^s(?:/[\w .:-]*/[\w .:-]*/|\|[\w "./:-]*\|[\w "./:-]*\|)$`)
)

// safe says that a shell reads a command as the words that it shows.
func safe(command string) bool {
	if strings.ContainsAny(command, "\n\r\x00\x1b") || strings.HasPrefix(command, "echo ") && strings.Contains(command, `\`) {
		return false
	}
	parts := strings.Split(command, "'")
	for i, part := range parts {
		if i%2 == 0 {
			continue
		}
		before := parts[i-1]
		switch {
		case strings.HasSuffix(before, " sed "):
			if !edit.MatchString(part) {
				return false
			}
		case strings.HasSuffix(before, "="): // as jsonpath has it
		case !strings.HasSuffix(before, " "), !json.Valid([]byte(part)): // it begins within a word, or ends too early
			return false
		}
		parts[i] = "QUOTED"
	}
	bare := strings.Join(parts, "")
	if len(parts)%2 == 0 || elsewhere.MatchString(bare) && !rights.MatchString(command) {
		return false
	}
	return !active.MatchString(bare) || several.MatchString(bare)
}
