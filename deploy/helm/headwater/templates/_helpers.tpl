{{- define "headwater.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "headwater.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "headwater.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headwater.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "headwater.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "headwater.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* How an engine and its replicator log in, and what they share. */}}
{{- define "headwater.credentials" -}}
{{- with .Values.nats.passwordSecret }}{{ if .name }}
- name: HEADWATER_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}}
{{- end }}{{ end }}
{{- with .Values.replicator.secret }}{{ if .name }}
- name: HEADWATER_REPLICATION_SECRET
  valueFrom: {secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}}
{{- end }}{{ end }}
{{- range $name, $value := .Values.engine.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "headwater.envFrom" -}}
{{- with .Values.engine.envFromSecrets }}
envFrom:
{{- range . }}
- secretRef: {name: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* Values that cannot work together end the rendering with a sentence. */}}
{{- define "headwater.check" -}}
{{- $v := .Values }}
{{- $hasJournal := or $v.journal.url $v.journal.urlSecret.name }}
{{- if not $v.engine.domain }}{{ fail "engine.domain is required: the JetStream domain that the engine serves" }}{{ end }}
{{- if and (gt (int $v.engine.replicas) 1) (not (and $hasJournal $v.tables.url)) }}{{ fail "engine.replicas above 1 needs a journal and tables in a bucket: each pod has a store of its own" }}{{ end }}
{{- if and $hasJournal (not $v.tables.url) }}{{ fail "a journal needs tables.url" }}{{ end }}
{{- if and (gt (int $v.engine.replicas) 1) (ne $v.replicator.mode "none") (not $v.replicator.secret.name) }}{{ fail "engine.replicas above 1 needs replicator.secret: a replicator continues with the engine that takes over" }}{{ end }}
{{- if eq $v.replicator.mode "submitted" }}
{{- if not (and $v.replicator.storeId $v.replicator.secret.name $v.tables.url) }}{{ fail "replicator.mode submitted needs replicator.storeId, replicator.secret and tables.url" }}{{ end }}
{{- end }}
{{- if and $v.console.enabled (not $v.console.tokenSecret.name) }}{{ fail "console.enabled needs console.tokenSecret" }}{{ end }}
{{- end }}
