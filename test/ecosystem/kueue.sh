# shellcheck shell=bash disable=SC1091,SC2164,SC2154
# Its integration suites want the definitions of other projects beside its own, in a copy that can be written to.
# They take twenty minutes, and to compile them ten: LIMIT=3600.
. "$CLIENT/suite"
cp -r "$SOURCE" kueue
chmod -R u+w kueue
cd kueue
SOURCE=$PWD
export GOFLAGS=-mod=mod
mkdir config/components/crd/_output
kubectl kustomize config/components/crd >config/components/crd/_output/crds.yaml
while read -r to module from; do
	go mod download "$module"
	mkdir -p "dep-crds/$to"
	cp "$(go list -m -f '{{.Dir}}' "$module")/$from"/*.yaml "dep-crds/$to"
done <<'END'
mpi-operator github.com/kubeflow/mpi-operator manifests/base
training-operator-crds github.com/kubeflow/training-operator manifests/base/crds
kf-trainer-crds github.com/kubeflow/trainer/v2 manifests/base/crds
kf-trainer-runtimes github.com/kubeflow/trainer/v2 manifests/base/runtimes
ray-operator-crds github.com/ray-project/kuberay/ray-operator config/crd/bases
jobset-operator sigs.k8s.io/jobset config/components/crd/bases
cluster-autoscaler k8s.io/autoscaler/cluster-autoscaler/apis config/crd
appwrapper-crds github.com/project-codeflare/appwrapper config/crd/bases
leaderworkerset-operator sigs.k8s.io/lws config/crd/bases
clusterprofile sigs.k8s.io/cluster-inventory-api config/crd/bases
spark-operator-crds github.com/kubeflow/spark-operator/v2 config/crd/bases
END
# mpi-operator's MPIJob is another, and not all of the runtimes' directory is runtimes.
rm -f dep-crds/training-operator-crds/kubeflow.org_mpijobs.yaml dep-crds/kf-trainer-runtimes/kustomization.yaml
chmod -R u+w dep-crds
of=./test/integration/singlecluster
suite $of/webhook/... $of/controller/core $of/controller/dra $of/controller/admissionchecks/provisioning $of/controller/jobs/{job,jobset,pod,raycluster} \
	$of/conversion $of/tas $of/scheduler $of/scheduler/{fairsharing,podsready} ./test/integration/multikueue
