"""Secrets in the forms in which they stand in logs, environments and command lines: (what must not be left, the line).

All of them are invented here; none was ever valid.
"""

# ruff: noqa: E501  # lines as programs write them

from __future__ import annotations

_R40 = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYab"
_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJlLXBsYW50ZWQ"

# Pieces are joined at run time, so that no scanner of repositories takes this file for a leak.
_HF = "hf_" + "PlantedPlantedPlanted123456789"
_SK = "sk-" + "proj-Planted0Planted1Planted2Planted3"
_GH = "ghp_" + "Planted0Planted1Planted2Planted34567"
_GHPAT = "github_pat_" + "11PLANTED0Planted1Planted2_Planted3Planted4"
_GL = "glpat-" + "Planted0Planted12345"
_XOX = "xoxb-" + "123456789012-1234567890123-PlantedPlantedPlanted"
_AIZA = "AIza" + "SyPlanted0Planted1Planted2Planted3xyz"
_AKIA = "AKIA" + "PLANTED0PLANTED1"
_NVAPI = "nvapi-" + "Planted0Planted1Planted2Planted3Planted4"
_NPM = "npm_" + "Planted0Planted1Planted2Planted34567"
_PYPI = "pypi-" + "AgEIcHlwaS5vcmcPlanted0Planted1Planted2"
_SG = "SG." + "Planted0Planted1Plante.Planted2Planted3Planted4"
_HVS = "hvs." + "Planted0Planted1Planted2"
_GSK = "gsk_" + "Planted0Planted1Planted2"
_STRIPE = "sk_" + "live_Planted0Planted1Planted2"
_SLACK = "hooks.slack.com/" + "services/T0PLANTED/B0PLANTED/Planted0Planted1"

_WANDB = "0123456789abcdef0123" + "456789abcdef01234567"
_ENTRA = "abc8Q~" + "planted.planted_planted-planted-pl"
_DUMPED = "SEZfVE9LRU49cGxhbnRlZC1iYXNlNjQtMQpYPTEK"  # HF_TOKEN=planted-base64-1
_AUTHS = "eyJhdXRocyI6eyJudmNyLmlvIjp7InVzZXJuYW1lIjoicGxhbnRlZCJ9fX0="

PLANTED: tuple[tuple[str, str], ...] = (
    (_HF, f"Downloading with {_HF} from the hub"),
    (_SK, f"using key {_SK}, ok"),
    (_GH, f"remote: {_GH}"),
    (_GHPAT, f"cloned with {_GHPAT}"),
    (_GL, f"PRIVATE-TOKEN: {_GL}"),
    (_XOX, f"slack {_XOX}"),
    (_AIZA, f"https://maps.example.com/api?key={_AIZA}&q=1"),
    (_AKIA, f"aws_access_key_id = {_AKIA}"),
    (_R40, f"found {_AKIA} with {_R40} in the profile"),
    (_R40, f"aws_secret_access_key={_R40}"),
    (_NVAPI, f"NGC key {_NVAPI}"),
    (_NPM, f"//registry/:_authToken={_NPM}"),
    (_PYPI, f"upload with {_PYPI}"),
    (_SG, f"mail by {_SG}"),
    (_HVS, f"vault said {_HVS}"),
    (_GSK, f"groq {_GSK}"),
    (_STRIPE, f"billing {_STRIPE}"),
    (_SLACK, f"posting to https://{_SLACK}"),
    (_JWT, f"id {_JWT} accepted"),
    ("planted-bearer-1", "Authorization: Bearer planted-bearer-1"),
    ("planted-bearer-2", "curl -H 'Authorization: Bearer planted-bearer-2' http://localhost:8000/v1/models"),
    ("planted-bearer-3", "{'authorization': 'Bearer planted-bearer-3', 'host': 'x'}"),
    ("planted-bearer-4", "headers: [(b'authorization', b'Bearer planted-bearer-4')]"),
    ("planted-bearer-5", "sent bearer planted-bearer-5 upstream"),
    ("dXNlcjpwbGFudGVkLXB3", "Authorization: Basic dXNlcjpwbGFudGVkLXB3"),
    ("dXNlcjpwbGFudGVkLXB3", "proxied with basic dXNlcjpwbGFudGVkLXB3 today"),
    ("planted-digest", 'Authorization: Digest username=me, response=planted-digest, realm=x'),
    ("planted-cookie", "Cookie: a=b; session=planted-cookie; theme=dark"),
    ("planted-cookie-2", "set-cookie: sid=planted-cookie-2; HttpOnly"),
    ("planted-password-1", "password=planted-password-1"),
    ("planted-password-2", "Password: planted-password-2"),
    ("planted,pass&word;3", "db password=planted,pass&word;3 rejected"),
    ("planted password 4", 'passwd: "planted password 4", next'),
    ("planted-password-5", "--password planted-password-5 --port 1"),
    ("planted-password-6", "Server=db;User Id=me;Pwd=planted-password-6;"),
    ("planted-password-7", "postgres://me:planted-password-7@db.internal:5432/x"),
    ("planted-password-8", "redis://:planted-password-8@10.0.0.9:6379/0"),
    ("planted/password-9", "amqp://me:planted/password-9@mq:5672"),
    ("planted-password-10", "curl -u me:planted-password-10 http://10.0.0.1"),
    ("planted-password-11", "sshpass -p planted-password-11 ssh node1"),
    ("planted-user-token", "https://planted-user-token@git.internal/repo.git"),
    ("planted-key-1", "api_key: planted-key-1"),
    ("planted-key-2", '{"api_key": "planted-key-2", "model": "m"}'),
    ("planted-key-3", "non-default args: {'model': 'm', 'api_key': ['planted-key-3', 'planted-key-3b'], 'port': 8000}"),
    ("planted-key-3b", "non-default args: {'model': 'm', 'api_key': ['planted-key-3', 'planted-key-3b'], 'port': 8000}"),
    ("planted-key-4", "server_args=ServerArgs(model_path='m', api_key='planted-key-4', admin_api_key='planted-key-5', tp=4)"),
    ("planted-key-5", "server_args=ServerArgs(model_path='m', api_key='planted-key-4', admin_api_key='planted-key-5', tp=4)"),
    ("planted-key-6", "args: Namespace(host=None, api_key=['planted-key-6'], port=8000)"),
    ("planted-key-7", "vllm serve m --api-key planted-key-7 --tensor-parallel-size 4"),
    ("planted-key-8", "vllm serve m --api-key=planted-key-8"),
    ("planted-key-9", "OPENAI_API_KEY=planted-key-9 python x.py"),
    ("planted-key-10", "export SOME_VENDOR_KEY='planted-key-10'"),
    ("planted-key-11", "WANDB_API_KEY: planted-key-11"),
    ("planted-key-12", 'body: "{\\"apiKey\\": \\"planted-key-12\\", \\"n\\": 1}"'),
    ("planted-key-13", "X-API-Key: planted-key-13"),
    ("planted-key-14", "the API key: planted-key-14"),
    ("planted-token-1", '"token": "planted-token-1"'),
    ("planted-token-2", "--hf-token planted-token-2 --port 1"),
    ("planted-token-3", "token=planted-token-3"),
    ("planted-token-4", "http://localhost:8888/?token=planted-token-4&x=1"),
    ("planted-token-5", "MY_TOKEN_PROD=planted-token-5"),
    ("planted-token-6", "accessToken: 'planted-token-6'"),
    ("planted-secret-1", "client_secret=planted-secret-1"),
    ("planted-secret-2", "clientSecret: planted-secret-2"),
    ("planted-secret-3", "secret='planted-secret-3'"),
    ("planted-sig-1", "https://b.s3.amazonaws.com/k?X-Amz-Credential=planted-cred/x&X-Amz-Signature=planted-sig-1&a=1"),
    ("planted-cred", "https://b.s3.amazonaws.com/k?X-Amz-Credential=planted-cred/x&X-Amz-Signature=planted-sig-1&a=1"),
    ("planted-sig-2", "https://a.blob.core.windows.net/c?sv=2024&sig=planted-sig-2&se=1"),
    ("planted-account-key", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=planted-account-key==;"),
    ("planted-passphrase", "passphrase = planted-passphrase"),
    ("planted-credential", "credentials: planted-credential"),
    ("planted-session", "aws_session_token = planted-session"),
    ("bm90LWEtcmVhbC1rZXktcGxhbnRlZC1oZXJlLW9ubHk", "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANbm90LWEtcmVhbC1rZXktcGxhbnRlZC1oZXJlLW9ubHk\nc2hvcnQ=\n-----END PRIVATE KEY-----"),
    ("MIIBplantedinline0plantedinline1", '"tls": "-----BEGIN RSA PRIVATE KEY-----\\nMIIBplantedinline0plantedinline1\\n-----END RSA PRIVATE KEY-----\\n"'),
    ("b3BlbnNzaC1rZXktdjEAAAAAplanted0planted1planted2", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAAplanted0planted1planted2\n"),
    ("Zm91bmQtd2l0aG91dC1iZWdpbm5pbmctcGxhbnRlZA", "Zm91bmQtd2l0aG91dC1iZWdpbm5pbmctcGxhbnRlZA==\n-----END EC PRIVATE KEY-----"),
    ("planted-sig-3", "Authorization: AWS4-HMAC-SHA256\nCredential=x/2026/s3, SignedHeaders=host, Signature=planted-sig-3"),
    ("planted-table-5", "ENV HF_TOKEN planted-table-5"),
    ("planted-pair-1", '{"name": "OPENAI_API_KEY", "value": "planted-pair-1"}'),
    ("planted-pair-2", "- {name: HF_TOKEN, value: planted-pair-2}"),
    ("planted-pair-3", "V1EnvVar(name='HF_TOKEN', value='planted-pair-3', value_from=None)"),
    ("planted-pair-4", '<add key="ApiKey" value="planted-pair-4"/>'),
    ("planted-pair-5", "<password>planted-pair-5</password>"),
    ("planted-pair-6", '"pass":"planted-pair-6"'),
    ("planted-pair-7", 'signing with "hmac_key": b"planted-pair-7"'),
    ("planted-colour-1", "\x1b[36mapi_key\x1b[0m=\x1b[35mplanted-colour-1\x1b[0m"),
    ("planted-colour-2", '\x1b[36mtoken\x1b[0m: \x1b[32m"planted-colour-2"\x1b[0m'),
    ("planted-table-1", "| HF_TOKEN | planted-table-1 |"),
    ("planted-table-2", "HF_TOKEN                planted-table-2"),
    ("planted-table-3", "HF_TOKEN -> planted-table-3"),
    ("planted-table-4", "set -x HF_TOKEN planted-table-4"),
    ("planted-login-1", "machine api.wandb.ai login user password planted-login-1"),
    ("planted-login-2", "docker login -u me -p planted-login-2 nvcr.io"),
    ("planted-login-3", "mysql -uroot -pplanted-login-3 -h db"),
    ("planted-login-4", "redis-cli -a planted-login-4 ping"),
    (_WANDB, f"wandb login {_WANDB}"),
    (_ENTRA, f"signed in with {_ENTRA}"),
    ("planted-said-1", "Invalid API key provided: planted-said-1."),
    ("planted-said-2", "Incorrect api key 'planted-said-2'"),
    ("planted-said-3", "SecretStr('planted-said-3')"),
    ("planted-toml-1", 'password = """planted-toml-1"""'),
    (_DUMPED[:36], f"echo {_DUMPED} | base64 -d"),
    (_AUTHS, f".dockerconfigjson: {_AUTHS}"),
    ("planted@example.com", "user planted@example.com asked"),
    ("my planted prompt", "INFO 11-29 20:00:00 [logger.py:42] Received request cmpl-1: prompt: 'my planted prompt', params: SamplingParams(n=1), prompt_token_ids: [1, 2], lora_request: None."),
    ("9906001", "Received request cmpl-2: prompt: '', params: SamplingParams(n=1), prompt_token_ids: [9906001, 1917], lora_request: None."),
    ("planted \\\"quoted\\\" prompt", 'Request chatcmpl-3 details: prompt: "planted \\"quoted\\" prompt", prompt_embeds shape: None.'),
    ("planted answer", "Generated response chatcmpl-4: output: 'planted answer', output_token_ids: [55], finish_reason: stop"),
    ("planted text", "[2026-11-29 20:00:00] Receive: obj=GenerateReqInput(rid='r', text='planted text', input_ids=[7001001], stream=False)"),
    ("7001001", "[2026-11-29 20:00:00] Receive: obj=GenerateReqInput(rid='r', text='planted text', input_ids=[7001001], stream=False)"),
    ("planted out", "Finish: obj=GenerateReqInput(rid='r', text=None), out={'text': 'planted out', 'output_ids': [1]}"),
    ("planted message", '{"model": "m", "messages": [{"role": "user", "content": "planted message"}], "stream": true}'),
    ("planted body", "raw request body: {\\\"prompt\\\": \\\"planted body\\\", \\\"max_tokens\\\": 5}"),
    ("planted first", "Received request cmpl-5: prompt: 'planted first\nplanted second', params: SamplingParams(n=1)"),
    ("planted second", "Received request cmpl-5: prompt: 'planted first\nplanted second', params: SamplingParams(n=1)"),
    ("planted received", '{"event": "request.received", "rid": "r", "obj": {"text": "planted received"}}'),
    ("planted finished", '{"event": "request.finished", "rid": "r", "out": {"text": "planted finished"}}'),
    ("planted core", "EngineCoreRequest(request_id='r', prompt_token_ids=[1], text='planted core')"),
    ("planted completion", "outputs=[CompletionOutput(index=0, text='planted completion', token_ids=[1])]"),
    ("planted strings", "BatchStrOut output_strs=['planted strings']"),
    ("planted refused", "validation error [type=string_type, input_value={'text': 'planted refused'}, input_type=dict]"),
    ("planted delta", 'data: {"id":"r","choices":[{"delta":{"content":"planted delta"}}]}'),
    ("planted content", '"content": [{"type": "text", "text": "planted content"}]'),
    ("planted argument", '"function": {"name": "f", "arguments": "{\\"q\\": \\"planted argument\\"}"}'),
    ("planted call", "FunctionCall(name='f', arguments='planted call')"),
    ("planted reply", "ChatMessage(role='assistant', content='planted reply', tool_calls=[])"),
    ("planted response", "ResponsesRequest(input='planted response', model='m')"),
    ("planted inputs", '{"inputs":"planted inputs","parameters":{"max_new_tokens":20}}'),
    ("planted embedding", 'POST /v1/embeddings body={"input": ["planted embedding"]}'),
    ("44.55.66.77", "connection from 44.55.66.77:51234 refused"),
    ("2607:f8b0:4004:c07::66", "peer [2607:f8b0:4004:c07::66]:443 closed"),
)  # fmt: skip

FOLLOWING: tuple[tuple[str, str], ...] = (
    ("planted-block-1", "password: |\n  planted-block-1\n  more\nport: 1"),
    ("planted-block-2", "  api_key: >-\n    planted-block-2\n  port: 1"),
    ("planted-entry-1", "- name: HF_TOKEN\n  value: planted-entry-1"),
    ("planted-entry-2", '{\n "name": "DB_PASSWORD",\n "value": "planted-entry-2"\n}'),
    ("planted-option-1", "args:\n- --api-key\n- planted-option-1\n- --port"),
    ("planted-option-2", '[\n  "--api-key",\n  "planted-option-2"\n]'),
    ("planted-list-1", "api_keys:\n  - planted-list-1\n  - other\nport: 1"),
    ("planted-long-1", 'password = """\nplanted-long-1\n"""\nport = 1'),
    ("AAAABplanted", "Private-Lines: 2\nAAAABplanted\nAAAA\nPrivate-MAC: 00"),
)
"""Secrets on the lines after their names."""

VARIABLES: dict[str, str] = {
    "VLLM_API_KEY": "planted-env-1",
    "SGLANG_API_KEY": "planted-env-2",
    "HF_TOKEN": "planted-env-3",
    "AWS_SECRET_ACCESS_KEY": "planted-env-4",
    "SLURM_JWT": "planted-env-5",
    "RANKMUSTER_S3_SECRET": "planted-env-6",
    "VLLM_SOMETHING_NEW_AUTH": "planted-env-7",
    "NCCL_NET_PLUGIN": "https://me:planted-env-8@host/plugin.so",
    "VLLM_EXTRA_ARGS": "--api-key planted-env-9 --port 1",
    "SGLANG_EXTRA": "Zq8vT3kLm9XwR2bNc7YpD5sF",
    "TRTLLM_CONFIG": '{"password": "planted-env-10"}',
    "UCX_CREDENTIALS": "planted-env-11",
    "RANKMUSTER_TLS": "-----BEGIN PRIVATE KEY-----\nplantedenv12plantedenv12\n-----END PRIVATE KEY-----",
    "OPENAI_API_KEY": "planted-env-13",
    "PGPASSWORD": "planted-env-14",
    "NCCL_DEBUG": "INFO",
}
IN_VARIABLES = (*(f"planted-env-{n}" for n in range(1, 15)), "Zq8vT3kLm9XwR2bNc7YpD5sF", "plantedenv12plantedenv12")

COMMAND = (
    "/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/m", "--api-key", "planted-arg-1",
    "--hf-token=planted-arg-2", "--tensor-parallel-size", "4", "planted-arg-3", "-e", "KEY=planted-arg-4",
    "--hf-overrides", '{"x": "planted-arg-5"}', "-pplanted-arg-6", "--unknown", "planted-arg-7", "--port", "8000",
    "planted-arg-8", "--chat-template=planted-arg-9", "--ssl-keyfile-password", "planted-arg-10",
)  # fmt: skip
IN_COMMAND = tuple(f"planted-arg-{n}" for n in range(1, 11))
