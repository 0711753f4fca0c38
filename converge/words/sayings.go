package words

import (
	"slices"
	"strings"
)

// A Saying pairs words of a runtime, a node agent or a program with what they mean, and what helps. Both parts of a mark with a * count,
// in their order.
type Saying [3]string

// Mark is the text that it stands for, in lower case; a star stands for any.
func (s Saying) Mark() string { return s[0] }

// Words explain the mark.
func (s Saying) Words() string { return s[1] }

// Advice tells what helps.
func (s Saying) Advice() string { return s[2] }

// Meaning is the first of a table that a text fits.
func Meaning(table []Saying, text string) (s Saying, ok bool) {
	i := slices.IndexFunc(table, func(s Saying) bool {
		rest, is := text, true
		for part := range strings.SplitSeq(s.Mark(), "*") {
			if _, rest, is = strings.Cut(rest, part); !is {
				return false
			}
		}
		return true
	})
	if i < 0 {
		return s, false
	}
	return table[i], true
}

// LastWords are those of programs that have to do with their cluster, in lower case, and what helps.
var LastWords = []Saying{
	{"exec format error", "",
		"build the image for the node's platform, or have the pod on other nodes: nodeSelector: {kubernetes.io/arch: …}"},
	{"plugin/loop", "", "let the DNS forward to a server outside: the node's resolv.conf names one that asks the cluster's DNS again " +
		"(kubelet --resolv-conf, or forward in the Corefile)"},
	{"pools are likely exhausted", "", "give the network a larger pool, or take back what nodes hold that are gone (calicoctl ipam check): " +
		"kubectl get ippools.crd.projectcalico.org -o yaml"},
	{"vm.max_map_count", "", "on the node: sysctl -w vm.max_map_count=262144, and a file in /etc/sysctl.d for the next start"},
	{"read-only file system", "", "mount an emptyDir where it writes, or leave securityContext.readOnlyRootFilesystem out"},
	{"serviceaccount/token*no such file", "", "let the pod have a token of its service account: automountServiceAccountToken: true"},
	{"address already in use", "", "give it another port: of the node with hostNetwork, else one that no other container of the pod has"},
	{"is forbidden: user \"system:serviceaccount:", "",
		"give its service account that right; what it has: kubectl auth can-i --list --as={}"},
	{"lookup *i/o timeout", "", DNSSilent}, {"temporary failure in name resolution", "", DNSSilent},
	{"eai_again", "", DNSSilent},
	{"lookup *try again", "", DNSSilent}, {"server misbehaving", "", DNSSilent}, {"resolv*timed out", "", DNSSilent},
	{"lookup *no such host", "", DNSUnknown}, {"getaddrinfo enotfound", "", DNSUnknown}, {"name or service not known", "", DNSUnknown},
	{"could not resolve host", "", DNSUnknown}, {"no resolvable bootstrap", "", DNSUnknown},
	{"unknownhostexception", "", DNSUnknown}, {"name does not resolve", "", DNSUnknown},
	{"could not translate host name", "", DNSUnknown},
	{"database \"*does not exist", "", "make that database on the server, or correct its name in the container's env"},
	{"unknown database", "", "make that database on the server, or correct its name in the container's env"},
	{"role \"*does not exist", "", WrongPassword},
	{"relation*does not exist", "", migrate}, {"no such table", "", migrate}, {"table*doesn't exist", "", migrate},
	{"unknown column", "", migrate}, {"pending migration", "", migrate},
	{"too many clients", "", tooMany}, {"too many connections", "", tooMany}, {"remaining connection slots", "", tooMany},
	{"no model found", "", wrongSource}, {"nosuchkey", "", wrongSource}, {"nosuchbucket", "", wrongSource}, {"404 not found", "", wrongSource},
	{"expiredtoken", "", renew}, {"token*expired", "", renew}, {"license*expired", "", renew},
	{"bind*permission denied", "", LowPort}, {"listen*permission denied", "", LowPort},
	{"failed to parse config", "", badConfig}, {"error parsing config", "", badConfig}, {"invalid configuration", "", badConfig},
	{"yaml: ", "", badConfig}, {"unmarshal", "", badConfig}, {"[emerg]", "", badConfig}, {"unexpected token", "", badConfig},
	{"segmentation fault", "", "it is a fault of the program: take another version of the image"},
	{"crd*not installed", "", noCRD}, {"no matches for kind", "", noCRD}, {"could not find the requested resource", "", noCRD},
	{"caches to sync", "", "see whether the kinds that it watches are installed, and it may list them: kubectl get crds"},
	{"cuda out of memory", "", gpuFull}, {"cuda error: out of memory", "", gpuFull},
	{"outofmemoryerror", "", "raise the program's own limit of memory, and the container's with it (Java: -XX:MaxRAMPercentage)"},
	{"heap out of memory", "", "raise the program's own limit of memory, and the container's with it (Node: --max-old-space-size)"},
	{"password authentication failed", "", WrongPassword}, {"access denied for user", "", WrongPassword},
	{"certificate has expired", "", "have that certificate renewed, and the server take it up: kubectl get certificates -A"},
	{"certificate signed by unknown authority", "", untrusted}, {"self-signed certificate", "", untrusted},
	{"self signed certificate", "", untrusted}, {"environ*keyerror: '", "", "give the container what it asks for, in its env"},
	{"cannot find module", "", incomplete}, {"no module named", "", incomplete}, {"classnotfoundexception", "", incomplete},
	{"error while loading shared libraries", "", incomplete},
	{"no space left on device", "", DiskFull}, {"invalid audience", "", wrongAudience}, {"audience claim", "", wrongAudience},
	{"token audiences", "", wrongAudience},
	{"connection refused", "", "look whether what it connects to runs: kubectl get endpointslices -A"},
	{"/proc/sys/*permission denied", "", "set that on the node itself (sysctl), and have the program leave it alone"},
	{"too many open files", "", "raise the limits of the node: sysctl -w fs.inotify.max_user_instances=1024, and ulimits of its runtime"},
	{"unknown flag", "", WrongArgs}, {"unknown command", "", WrongArgs}, {"flag provided but not defined", "", WrongArgs},
	{"unrecognized arguments", "", WrongArgs}, {"invalid option", "", WrongArgs}, {"(403)", "", noRight}, {"accessdenied", "", noRight},
	{"permission denied (publickey", "", "give it the SSH key that the server knows, from a Secret"},
	{"must be root", "", "let it run as root (runAsUser: 0), with the capabilities NET_ADMIN and NET_RAW, or have the mesh's CNI " +
		"plugin do it"},
	{"safe_to_bootstrap", "", "on the member that went last, set safe_to_bootstrap: 1 in grastate.dat, or let its operator recover " +
		"the cluster"},
	{"common ancestor", "", "its data went another way than the primary's: delete the pod and its claims, so that they are copied anew"},
	{"exec: *: permission denied", "", notExecutable},
	{"permission denied", "",
		"have what it opens belong to its user: securityContext.fsGroup for volumes, runAsUser for files of the image"},
}

const wrongAudience = "have the audience of its projected token be the one that the server expects, or the server take that one"

// DiskFull is the advice for a program that can write no more.
const DiskFull = "enlarge the volume that it writes to, or make room on it"

// DNSUnknown is the advice for a name that the cluster's DNS does not know.
const DNSUnknown = "correct the name that it looks up, or create the service: kubectl get services -A"

// WrongPassword is the advice for credentials that a server does not take.
const WrongPassword = "compare the credentials that it has from a Secret with those that the server has"

// WrongArgs is the advice on a flag that a program does not know.
const WrongArgs = "correct the container's args: this version of the program does not know that one"

const (
	gpuFull = "the GPU's own memory is used up: have it work on less at once (batch, context), split it over more GPUs, " +
		"or take larger ones"
	untrusted     = "give the container the certificate of the server's authority, or the server one of an authority that it trusts"
	migrate       = "bring the database's tables up to this version of the program: run its migrations, or take the version that fits"
	tooMany       = "have fewer replicas or smaller pools of connections, or let the server take more (max_connections)"
	wrongSource   = "correct the address of what it fetches, by what is there: it stands in the container's args or env"
	badConfig     = "correct its configuration, which it can't read: mostly what it mounts from a ConfigMap"
	noCRD         = "install the CRDs that it works with, in the version that it knows: kubectl get crds"
	notExecutable = "make its command executable in the image (chmod +x), or correct it"
	incomplete    = "the image lacks a part of the program: build it anew, or correct the command; a volume may lie over it, too"
)

// DNSSilent is the advice where the cluster's DNS does not answer.
const DNSSilent = "look whether the cluster's DNS runs, and whether network policies let the pod reach it: kubectl get networkpolicies -A"
