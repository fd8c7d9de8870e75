#!/bin/sh
# Trains under Slurm, with three daemons of nodes on this machine: with srun for each MPI, with mpirun in a batch
# script, without a launcher; stopped by Slurm's signal before the time limit and by scancel; with a rank that dies.
# Usage: slurm.sh TOWERS
set -eu
[ "$(id -u)" -eq 0 ] || { echo "SKIPPED: Slurm's daemons want to be root"; exit 77; }
PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd srun sbatch scancel setpriv; do
    command -v $tool >/dev/null || { echo "SKIPPED: there is no $tool"; exit 77; }
done
towers=$(realpath "$1") folder=$(dirname "$(realpath "$1")")
work=$(mktemp -d)
fail() {
    for log in "$work"/log "$work"/*.log "$work"/*.out "$work"/slurm/*.log; do
        [ ! -s "$log" ] || { echo "--- $log"; tail -n 30 "$log"; }
    done
    echo "FAILED: $1" >&2
    exit 1
}

# Daemons leave their ids behind. Steps end with their daemon of a node only if they are cancelled before.
end() {
    [ ! -f "$work/slurm/slurm.conf" ] || timeout -k 1 5 scancel --quiet --full --signal=KILL --user=root || true
    for daemon in slurmctld n1 n2 n3 munged; do
        id=$(cat "$work/slurm/$daemon.pid" "$work/munge/$daemon.pid" 2>/dev/null) || true
        kill "$id" 2>/dev/null || continue # also where there is no id
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            readlink "/proc/$id/exe" >/dev/null || break # fails for a dead one that nobody waits for, too
            sleep .1
        done
    done
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

chmod 755 "$work"
mkdir -p "$work/slurm/state" "$work/slurm/spool" "$work/slurm/tmp"
for node in n1 n2 n3; do mkdir "$work/slurm/spool/$node" "$work/slurm/tmp/$node"; done # pmix wants both
mkdir "$work/munge"
dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 2>/dev/null
chmod 400 "$work/munge/key"
chown -R munge "$work/munge"
host=$(hostname) port=$((20000 + $$ % 3000 * 4))
export SLURM_CONF="$work/slurm/slurm.conf"
cat >"$SLURM_CONF" <<END
ClusterName=towers
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
SlurmctldPort=$port
SlurmctldPidFile=$work/slurm/slurmctld.pid
SlurmctldLogFile=$work/slurm/slurmctld.log
SlurmdPidFile=$work/slurm/%n.pid
SlurmdLogFile=$work/slurm/%n.log
StateSaveLocation=$work/slurm/state
SlurmdSpoolDir=$work/slurm/spool/%n
TmpFS=$work/slurm/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=10
NodeName=n[1-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 3))] CPUs=4
PartitionName=all Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP
END
setpriv --reuid=munge --regid=munge --clear-groups munged --socket="$work/munge/socket" --key-file="$work/munge/key" \
    --pid-file="$work/munge/munged.pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" || fail "munged"
slurmctld || fail "slurmctld"
for node in n1 n2 n3; do slurmd -N $node || fail "slurmd of $node"; done
cd "$work"
timeout -k 5 20 srun -N 3 -n 3 true >log 2>&1 || fail "Slurm starts no tasks"

mpis=
[ ! -f "$folder/lib/towers/towers-openmpi.so" ] && [ ! -f "$folder/../lib/towers/towers-openmpi.so" ] ||
    ! command -v mpirun.openmpi >/dev/null || ! srun --mpi=list 2>&1 | grep -qw pmix || mpis="pmix"
[ ! -f "$folder/lib/towers/towers-mpich.so" ] && [ ! -f "$folder/../lib/towers/towers-mpich.so" ] ||
    ! command -v mpirun.mpich >/dev/null || ! srun --mpi=list 2>&1 | grep -qw pmi2 || mpis="$mpis pmi2"
[ -n "$mpis" ] || { echo "SKIPPED: this build and this Slurm have no MPI in common"; exit 77; }
first=${mpis# } first=${first%% *}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 VK_DRIVER_FILES=/none
unset OMP_NUM_THREADS

# train RUN STEPS [FLAG...]: the command of a training, whose bits do not depend on how fast ranks are
train() {
    run=$1 steps=$2
    shift 2
    echo "$towers" train --towers cpu --threads 1 --tune=off --recipe cifar10-tutorial --global-batch 48 --lr .001 \
        --shares even --progress log --log-every 0 --save-every 0 --steps "$steps" --run "$run" "$@"
}
# batch NAME FLAGS COMMAND: submits a script with that command for three tasks; its words are in NAME.out
batch() {
    { echo "#!/bin/sh"; echo "$3"; echo 'echo "the script ends with $?"'; } >"$1.sh"
    # shellcheck disable=SC2086 # several flags
    timeout -k 5 20 sbatch -N 3 -n 3 -J "$1" -o "$1.out" $2 "$1.sh" >log 2>&1 || fail "sbatch for $1"
}
# until_done SECONDS COMMAND...: waits for it to succeed
until_done() {
    tries=$(($1 * 5))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep .2
    done
}
gone() { ! squeue -h -n "$1" -o %j | grep -q .; }
begun() { [ -f "$1/model.ckpt-0.safetensors" ]; }
# saved RUN SECONDS: its job ends within these, and a checkpoint holds what was trained
saved() {
    until_done "$2" gone "$1" || fail "$1: its job goes on"
    ls "$1"/model.ckpt-[1-9]*.safetensors >/dev/null 2>&1 || fail "$1: there is no checkpoint"
    grep -q "^stopped: saved $1/model.ckpt-[1-9]" "$1.out" || fail "$1: it does not say that it is saved"
}
# same RUN RUN: their parameters are the same bits
same() { cmp "$1/model.ckpt-10.safetensors" "$2/model.ckpt-10.safetensors" || fail "$2 has other bits than $1"; }
# dies NAME MPI RANK: that rank is killed; sets seconds
dies() {
    # shellcheck disable=SC2046
    timeout -k 5 60 srun -N 3 -n 3 --mpi="$2" --kill-on-bad-exit=1 $(train "$1" 100000) >"$1.out" 2>&1 &
    job=$!
    until_done 20 begun "$1" || fail "$1 does not begin"
    id=
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe")" = "$towers" ] || continue
        tr '\0' '\n' <"$process/environ" | grep -qx "SLURM_PROCID=$3" || continue
        tr '\0' '\n' <"$process/cmdline" | grep -qx "$1" && id=${process#/proc/}
    done
    [ -n "$id" ] || fail "$1: there is no process of rank $3"
    kill -9 "$id"
    since=$(date +%s) code=0
    wait $job || code=$?
    seconds=$(($(date +%s) - since))
    case $code in 0 | 124) fail "$1: the job ends with $code" ;; esac
    [ $seconds -le 30 ] || fail "$1: the job ends $seconds s after its rank"
    grep -q "task $3: Killed" "$1.out" || fail "$1: srun does not say which rank is lost"
}

# At first, since Slurm looks only every 30 s after its own start whether a time limit is near
batch limit "-t 1 --signal=USR2@30" "srun --mpi=$first nice -n 19 $(train limit 100000)"

# Under srun
for mpi in $mpis; do
    # shellcheck disable=SC2046
    timeout -k 5 60 srun -N 3 -n 3 --mpi="$mpi" $(train "srun-$mpi" 10) >log 2>&1 || fail "srun --mpi=$mpi"
    [ "$(grep -c "^tower_[0-2]: [0-2]/cpu " log)" -eq 3 ] || fail "srun --mpi=$mpi: not one run of three towers"
    same "srun-$first" "srun-$mpi"
done
code=0
# shellcheck disable=SC2046
timeout -k 5 60 srun -N 3 -n 3 $(train nothing 10) >log 2>&1 || code=$?
[ $code -eq 2 ] || fail "srun without --mpi ends with $code"
grep -q "^towers: srun has started 3 tasks, but for no MPI; start with srun --mpi=pmix" log || fail "srun without --mpi"
[ ! -e nothing ] || fail "srun without --mpi makes a run"

# One process: without srun, and as each kind of a step's only task. The batch script has variables of three tasks.
batch plain "" "$(train plain 10)"
# shellcheck disable=SC2046
timeout -k 5 60 srun -n 1 $(train one 10) >log 2>&1 || fail "one task"
until_done 30 gone plain || fail "a batch script without a launcher goes on"
grep -q "^done: saved plain/" plain.out || fail "a batch script without a launcher"
same plain one
for mpi in $mpis; do
    # shellcheck disable=SC2046
    timeout -k 5 60 srun -n 1 --mpi="$mpi" $(train "one-$mpi" 10) >log 2>&1 || fail "one task with $mpi"
    same plain "one-$mpi"
done

# mpirun in a batch script takes the job's nodes
for mpi in $mpis; do
    launcher=openmpi
    [ "$mpi" = pmix ] || launcher=mpich
    batch "mpirun-$mpi" "" "mpirun.$launcher -n 3 $(train "mpirun-$mpi" 10)"
    until_done 30 gone "mpirun-$mpi" || fail "mpirun.$launcher in a batch script goes on"
    grep -q "^the script ends with 0" "mpirun-$mpi.out" || fail "mpirun.$launcher in a batch script"
    same "srun-$first" "mpirun-$mpi"
done

# scancel, with a signal and without, which is SIGTERM
for signal in USR2 TERM; do
    batch "stop-$signal" "" "srun --mpi=$first $(train "stop-$signal" 100000)"
    until_done 20 begun "stop-$signal" || fail "stop-$signal does not begin"
    sleep .5
    if [ $signal = USR2 ]; then scancel -s USR2 -n stop-USR2; else scancel -n stop-TERM; fi
    saved "stop-$signal" 15
done
grep -q "^the script ends with 0" stop-USR2.out || fail "a job that USR2 stops has failed"

# Ranks that are lost
for mpi in $mpis; do
    dies "dies-$mpi" "$mpi" 1
    echo "srun --mpi=$mpi: the job ends $seconds s after a rank has died"
    grep "^towers: rank 1 (.*the last checkpoint is dies-$mpi/model.ckpt-0.safetensors: go on from it with --resume" \
        "dies-$mpi.out" || [ "$mpi" = pmi2 ] || fail "dies-$mpi: no line names the rank and the checkpoint"
done

# The signal before the time limit; what it has saved goes on, on one rank fewer
saved limit 45
grep -q "^the script ends with 0" limit.out || fail "a job that the signal before its limit stops has failed"
step=$(sed -n 's/^stopped: saved limit.model.ckpt-\([0-9]*\).safetensors.*/\1/p' limit.out)
timeout -k 5 60 srun -N 2 -n 2 --mpi="$first" "$towers" train --run limit --resume --towers cpu --threads 1 --tune=off \
    --progress log --steps "$((step + 5))" >resumed.log 2>&1 || fail "it does not go on with two ranks"
[ -f "limit/model.ckpt-$((step + 5)).safetensors" ] || fail "it goes on to another step"
echo "Slurm's signal has stopped a run of three ranks at step $step, and two have gone on with it"
