. /tmp/rv4/env.sh
setsid .venv/bin/python -m ostinato serve --port 18742 --data-dir /tmp/rv4/data2 >>/tmp/rv4/log2 2>&1 & P=$!
for i in $(seq 50); do curl -s -o /dev/null http://127.0.0.1:18742/healthz && break; sleep .2; done
cat > /tmp/rv4/t6.py <<'P'
import d
from d import *
d.c=httpx.Client(base_url="http://127.0.0.1:18742",timeout=60); d.AG="/agui"
for k,f in (("approve",lambda i:yes(i)),("edit",lambda i:yes(i,arguments=dict(i["metadata"]["arguments"],to="zed@x.example"))),("deny",lambda i:no(i,"later")),("abandon",can)):
    i=show(k,d.agui("demo-"+k,"approve email")); print(json.dumps(i)[:300]); show(" ",d.agui("demo-"+k,resume=[f(i[0])])); show(" twice",d.agui("demo-"+k,resume=[f(i[0])]))
i=show("msg",d.agui("demo-m","approve email")); show(" ",d.agui("demo-m","hello"))
P
.venv/bin/python /tmp/rv4/t6.py; kill $P
