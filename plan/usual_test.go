package plan

import "testing"

// Autoscalers keep to their bounds without any metrics, as in a cluster.
func TestAutoscalerBounds(t *testing.T) {
	scaler := func(bounds string) string {
		return "\n---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n" +
			"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, " + bounds + "}\n"
	}
	f := grown(t, 4, web+scaler("maxReplicas: 9"))
	hold(t, run(t, f, manifest(t, scaler("minReplicas: 6, maxReplicas: 9"))), "ends well", "deployment/web: 6 of 6 at the end",
		"metrics are not known, so sizes stay as they are within the bounds")
	hold(t, run(t, f, Scale(Target{"deploy", "default", "web"}, 12)), "deployment/web: 9 of 9 at the end")
}

// Who resizes volumes is outside, and does it.
func TestClaimGrows(t *testing.T) {
	claim := func(size string) string {
		return "\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: disk}\n" +
			"spec: {storageClassName: grow, accessModes: [ReadWriteOnce], resources: {requests: {storage: " + size + "}}}\n"
	}
	f := grown(t, 2, "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: grow}\nprovisioner: disks.example.com\n"+
		"allowVolumeExpansion: true\n"+claim("1Gi"))
	hold(t, run(t, f, manifest(t, claim("3Gi"))), "ends well", "persistentvolumeclaim/disk")
	hold(t, run(t, f, manifest(t, claim("500Mi"))), "refused: persistentvolumeclaim/disk")
}

// A cron job that runs every few minutes does not keep a cluster from its rest.
func TestCronJobIsNoUnrest(t *testing.T) {
	f := grown(t, 4, web+"\n---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick}\nspec:\n  schedule: '*/2 * * * *'\n"+
		"  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: "+
		"[{name: c, image: i, resources: {requests: {cpu: 100m}}}]}}}}")
	hold(t, run(t, f, Scale(Target{"deploy", "default", "web"}, 5)), "ends well", "!not at rest", "5 of 5 at the end")
	// a run that ends well and began before the change says nothing of the next ones
	hold(t, run(t, f, manifest(t, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: most}\n"+
		"spec: {limits: [{type: Container, max: {cpu: 10m}}]}")), "cronjob/tick")
}
