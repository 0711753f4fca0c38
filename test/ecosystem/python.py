"""Objects, a watch, patches, tokens; logs and exec of a real container."""
import base64
import json

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

config.load_kube_config()
core, apps, namespace, checks = client.CoreV1Api(), client.AppsV1Api(), "default", 0


def check(got, want):
    global checks
    if got != want:
        raise SystemExit(f"{got!r} and not {want!r}")
    checks += 1


start = core.list_namespaced_config_map(namespace).metadata.resource_version
core.create_namespaced_config_map(namespace, {"metadata": {"name": "one", "labels": {"of": "trial"}}, "data": {"n": "1"}})
core.patch_namespaced_config_map("one", namespace, {"data": {"n": "2"}})
core.delete_namespaced_config_map("one", namespace)
seen = []
for e in watch.Watch().stream(core.list_namespaced_config_map, namespace, resource_version=start, label_selector="of=trial", timeout_seconds=60):
    seen.append((e["type"], e["object"].data["n"]))
    if e["type"] == "DELETED":
        break
check(seen, [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")])
try:
    core.read_namespaced_config_map("one", namespace)
    check("found", "")
except ApiException as e:
    check((e.status, json.loads(e.body)["reason"]), (404, "NotFound"))

labels = {"app": "web"}
container = client.V1Container(name="web", image="nginx:1", ports=[client.V1ContainerPort(container_port=80)])
template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container]))
apps.create_namespaced_deployment(namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=client.V1DeploymentSpec(
    replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=template)))
pod = None
for e in watch.Watch().stream(core.list_namespaced_pod, namespace, label_selector="app=web", timeout_seconds=60):
    if any(c.type == "Ready" and c.status == "True" for c in e["object"].status.conditions or []):
        pod = e["object"].metadata.name
        break


def run(*command):
    s = stream(core.connect_get_namespaced_pod_exec, pod, namespace, command=list(command), stdout=True, stderr=True, _preload_content=False)
    s.run_forever(timeout=60)
    code = s.returncode  # read_all takes the channel that tells it too
    return s.read_all(), code


check(run("echo", "it loops"), ("it loops\n", 0))
check(run("sh", "-c", "exit 3")[1], 3)
run("wget", "-qO-", "http://127.0.0.1/")
for line in watch.Watch().stream(core.read_namespaced_pod_log, pod, namespace):
    if "GET / " in line:
        check(True, True)
        break
scale = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 0}})
check(scale.spec.replicas or 0, 0)  # a zero is not sent
token = core.create_namespaced_service_account_token("default", namespace, client.AuthenticationV1TokenRequest(
    spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))).status.token
claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
check(claims["sub"], "system:serviceaccount:default:default")
print(f"{checks} checks")
