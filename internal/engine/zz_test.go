package engine_test
import ("testing";"syscall";"time";"fmt";"orgops/internal/sweep")
func cpuNow() time.Duration { var r syscall.Rusage; _ = syscall.Getrusage(0,&r); return time.Duration(r.Utime.Nano()+r.Stime.Nano()) }
func TestZZ(t *testing.T) {
 var a,b,c,d,e time.Duration
 const n=40
 for i := range n { t.Run(fmt.Sprint(i), func(t *testing.T){
  t0:=cpuNow()
  _ = newVerifySite(t)
  a+=cpuNow()-t0
  })
  t.Run(fmt.Sprint(i), func(t *testing.T){
  s := newSweepSite(t, sweep.Unroute)
  t0:=cpuNow()
  s.due(new(true))
  t1:=cpuNow()
  s.scan(); 
  t2:=cpuNow()
  s.finish()
  t3:=cpuNow()
  b+=t1-t0; c+=t2-t1; d+=t3-t2
  s.evaluate(s.clock.now().Unix())
  t3=cpuNow()
  s.acted()
  e+=cpuNow()-t3
  })
 }
 t.Log("new",a/n,"due",b/n,"scan",c/n,"finish",d/n,"acted",e/n)
 t0:=cpuNow()
 for i := range n { t.Run(fmt.Sprint(i), func(t *testing.T){
  _ = newVerifySite(t)
  }) }
 t.Log("new+cleanup", (cpuNow()-t0)/n)
 t0=cpuNow()
 for i := range n { t.Run(fmt.Sprint(i), func(t *testing.T){
  s := newSweepSite(t, sweep.Unroute)
  s.due(new(true))
  s.sweep()
  }) }
 t.Log("all", (cpuNow()-t0)/n)
}
